package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/kafka-marshal/marshal/testutil"
)

// serve is an embedded broker in a process of its own, so that what the readers use is theirs alone. It prints its address and
// ends with the context.
func serve(ctx context.Context) error {
	c, err := testutil.Start()
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(strings.Join(c.Addrs(), ","))
	<-ctx.Done()
	return nil
}
