// Command marshal shows and operates what the library does.
//
//	marshal state     who is in a group, who holds what, how far behind, and what nobody holds and why
//	marshal log       what members have written, record by record, and what came of it
//	marshal verify    replays all of it by the rules: is anything wrong
//	marshal seek      sets the position of a topic's partitions, while the group runs or not
//	marshal demo      worker processes share partitions on an embedded broker, or on MARSHAL_BROKERS
//	marshal version   what was built
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/kafka-marshal/marshal/testutil/workers"
)

const usage = `usage: marshal <command> [flags]

  state     who is in a group, who holds what, how far behind, and what nobody holds and why
  log       what members have written, record by record, and what came of it
  verify    replay all of it by the rules: is anything wrong
  seek      set the position of a topic's partitions, while the group runs or not
  demo      worker processes share the partitions of a topic while some join, end, crash, freeze and restart
  version   what was built

Help on a command: marshal <command> -h

Exit codes: 0 done, 1 it failed, or something is wrong, 2 the call makes no sense, 3 the brokers or the log could not be reached or read.
`

func main() {
	workers.Serve() // the workers of the demo are this program too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"state":   state,
	"log":     showLog,
	"verify":  verify,
	"seek":    seek,
	"demo":    demo,
	"version": version,
}

// run gives the exit code; see usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return 0
	}
	command := commands[args[0]]
	if command == nil {
		fmt.Fprintf(stderr, "marshal: there is no command %q\n\n%s", args[0], usage)
		return 2
	}
	var bad *usageError
	var unreadable *unreadableError
	switch err := command(ctx, args[1:], stdout, stderr); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &bad):
		fmt.Fprintf(stderr, "marshal %s: %v\nHelp: marshal %[1]s -h\n", args[0], err)
		return 2
	case errors.As(err, &unreadable):
		fmt.Fprintf(stderr, "marshal %s: %v\n", args[0], err)
		return 3
	default:
		fmt.Fprintf(stderr, "marshal %s: %v\n", args[0], err)
		return 1
	}
}

func version(_ context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("version", "What was built, and with what.", stdout)
	if err := parse(f, args); err != nil {
		return err
	}
	v := "(unknown)"
	if b, ok := debug.ReadBuildInfo(); ok {
		v = b.Main.Version + " " + b.GoVersion
	}
	_, err := fmt.Fprintln(stdout, "marshal", v)
	return err
}
