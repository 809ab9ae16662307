// Package secure holds the tests of the connection's security. They are the same for every broker: Run takes what can give
// brokers of a Kind, the embedded one or a real one.
package secure
