package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
)

// tool is one run of a command that looks at a group or changes it.
type tool struct {
	flags          *flag.FlagSet
	stdout, stderr io.Writer
	brokers        *string
	config         *string
	topic          *string
	output         *string
	timeout        *time.Duration
	verbose        *bool
	file           properties
	sarama         *sarama.Config
}

// newTool makes the flags that all of them have. about is what -h says first.
func newTool(name, about string, stdout, stderr io.Writer) *tool {
	t := &tool{flags: newFlags(name, about, stdout), stdout: stdout, stderr: stderr}
	f := t.flags
	t.brokers = f.String("brokers", os.Getenv("MARSHAL_BROKERS"), "`addresses` of some brokers, host:port with commas between; defaults to MARSHAL_BROKERS, then to bootstrap.servers of -config")
	t.config = f.String("config", "", "`file` like Kafka's client.properties: security.protocol, sasl.mechanism, sasl.jaas.config (or sasl.username and\nsasl.password), ssl.ca.location, ssl.certificate.location, ssl.key.location (PEM)")
	t.topic = f.String("log-topic", marshal.MarshalTopic, "coordination `topic`")
	t.output = f.String("o", "table", "`format` of the output: table or json")
	t.timeout = f.Duration("timeout", 30*time.Second, "how long to try to reach the brokers and to get an answer")
	t.verbose = f.Bool("v", false, "tell on stderr what the library does")
	return t
}

// newFlags makes the flags of a command, which says what is wrong on stderr and how it is called on stdout.
func newFlags(name, about string, stdout io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {
		f.SetOutput(stdout)
		fmt.Fprintf(stdout, "usage: marshal %s [flags]\n\n%s\n\nflags:\n", name, strings.TrimSpace(about))
		f.PrintDefaults()
	}
	return f
}

// parse reads flags; there are no other arguments.
func parse(f *flag.FlagSet, args []string) error {
	help := f.Usage
	f.Usage = func() {}
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		help()
		return err
	case err != nil:
		return wrong("%v", err)
	case f.NArg() > 0:
		return wrong("what is %q? There are only flags", f.Arg(0))
	}
	return nil
}

// usageError is a call that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// unreadableError is what could not be reached or read.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// parse reads the flags and the file of -config.
func (t *tool) parse(args []string) error {
	if err := parse(t.flags, args); err != nil {
		return err
	}
	if *t.output != "table" && *t.output != "json" {
		return wrong("-o %s: use table or json", *t.output)
	}
	if *t.timeout <= 0 {
		return wrong("-timeout %v: it must be above 0", *t.timeout)
	}
	if *t.config != "" {
		f, err := os.Open(*t.config)
		if err != nil {
			return wrong("-config: %v", err)
		}
		defer f.Close()
		if t.file, err = readProperties(f); err != nil {
			return wrong("-config %s: %v", *t.config, err)
		}
		if t.sarama, err = t.file.config(); err != nil {
			return wrong("-config %s: %v", *t.config, err)
		}
	}
	if len(t.addresses()) == 0 {
		return wrong("no brokers: use -brokers, MARSHAL_BROKERS, or bootstrap.servers in the file of -config")
	}
	return checkAddresses(t.addresses())
}

// checkAddresses refuses what is no host:port.
func checkAddresses(addrs []string) error {
	for _, addr := range addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return wrong("broker %s: use host:port, as in %s:9092", addr, cmp.Or(host, strings.Trim(addr, ":"), "localhost"))
		}
	}
	return nil
}

// addresses are those of the brokers to begin with.
func (t *tool) addresses() []string {
	all := strings.FieldsFunc(cmp.Or(*t.brokers, t.file["bootstrap.servers"]), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Clip(all)
}

// json tells whether the output is for programs.
func (t *tool) json() bool { return *t.output == "json" }

// logger writes what the library does to stderr, if that is wanted.
func (t *tool) logger() *logrus.Logger {
	log := logrus.New()
	log.Out, log.Formatter = t.stderr, &logrus.TextFormatter{DisableColors: true, FullTimestamp: true}
	if !*t.verbose {
		log.Out = io.Discard
	}
	return log
}

// options are those of every connection: nothing is made that is not there.
func (t *tool) options(more ...marshal.Option) []marshal.Option {
	return append([]marshal.Option{
		marshal.WithTopic(*t.topic), marshal.WithSaramaConfig(t.sarama), marshal.WithLogger(t.logger()), marshal.WithoutTopicCreation(),
	}, more...)
}

// dial connects; what is returned ends the connection.
func (t *tool) dial(ctx context.Context, more ...marshal.Option) (*marshal.KafkaCluster, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, *t.timeout)
	defer cancel()
	c, err := marshal.DialContext(ctx, "marshal-command", t.addresses(), t.options(more...)...)
	if err != nil {
		return nil, nil, &unreadableError{fmt.Errorf("no access to the coordination of groups at %s: %w", strings.Join(t.addresses(), ","), err)}
	}
	return c, c.Terminate, nil
}
