// Package audit reads the records of one group in order, replays them by the rules (PROTOCOL.md §5, §7) and says of each what it
// is, what it did, and what is wrong with it.
//
// A record that changed nothing is seldom wrong: a retry appends a copy, an owner that was just evicted has a heartbeat
// under way, a Seek overtakes a position. Wrong is what no writer of ours can have written, whatever was late or lost:
//
//   - two owners: somebody acts as the owner of a key under an epoch that the log never granted to it, or a snapshot gives
//     a key to two;
//   - regression: a position, an epoch or a token goes back;
//   - disagreement: a snapshot, or the hash in a heartbeat, is of another history than this one;
//   - foreign: it cannot be read, or nobody who joined has written it.
//
// Where acknowledged records were lost (exception 2 of PROTOCOL.md §9) the writers were right and the log is not: then
// there are findings too, and rightly.
package audit
