// Command certificates makes what the brokers and clients of kafka.sh need for TLS, in a folder: an authority (ca.pem,
// ca-key.pem), and keys with certificates that it has signed (server.pem, client.pem).
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kafka-marshal/marshal/testutil"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certificates DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	a, err := testutil.NewAuthority()
	if err != nil {
		return err
	}
	for file, name := range map[string]string{"server.pem": "broker", "client.pem": "worker"} {
		c, err := a.Issue(name, time.Now().Add(12*time.Hour))
		if err != nil {
			return err
		}
		if err := testutil.SaveCertificate(filepath.Join(dir, file), c); err != nil {
			return err
		}
	}
	return a.Save(dir)
}
