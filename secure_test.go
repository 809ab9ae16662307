package marshal_test

import (
	"testing"

	"github.com/kafka-marshal/marshal/testutil/secure"
)

// TestSecurityOfTheConnection runs on the embedded broker what the integration tests run on a real one.
func TestSecurityOfTheConnection(t *testing.T) { secure.Run(t, secure.Embedded) }
