// Command marshal shows and operates what the library does.
//
//	marshal demo      worker processes share partitions on an embedded broker, or on MARSHAL_BROKERS
//	marshal version   what was built
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

const usage = `usage: marshal <command> [flags]

  demo      worker processes share the partitions of a topic while some join, end, crash, freeze and restart
  version   what was built

Help on a command: marshal <command> -h
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run gives the exit code: 0 done, 1 it failed, 2 the call was wrong.
func run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	var err error
	switch args[0] {
	case "demo":
		err = demo(ctx, args[1:])
	case "demo-worker": // what demo runs, several times
		err = work(ctx, args[1:])
	case "version":
		version()
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "marshal: there is no command %q\n\n%s", args[0], usage)
		return 2
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		fmt.Fprintln(os.Stderr, "marshal:", err)
		return 1
	}
}

var errUsage = errors.New("wrong call")

// parse reads flags; there are no other arguments.
func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage // the flag package has said what
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "marshal %s: what is %q?\n", fs.Name(), fs.Arg(0))
		return errUsage
	}
	return nil
}

func version() {
	v := "(unknown)"
	if b, ok := debug.ReadBuildInfo(); ok {
		v = b.Main.Version + " " + b.GoVersion
	}
	fmt.Println("marshal", v)
}
