package scram

import (
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestANameIsEscapedAndThePasswordIsAskedAtEachLogIn(t *testing.T) {
	asked := 0
	c := Generator(sarama.SASLTypeSCRAMSHA512, func() string { asked++; return "p" })()
	for n := range 2 {
		require.NoError(t, c.Begin("u,=", "another", ""))
		first, err := c.Step("")
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(first, "n,,n=u=2C=3D,r="), first)
		assert.False(t, c.Done())
		assert.Equal(t, n+1, asked)
	}
}

func TestABrokerThatDoesNotKnowThePasswordIsNotTrusted(t *testing.T) {
	begin := func(t *testing.T) (c sarama.SCRAMClient, nonce string) {
		c = Generator(sarama.SASLTypeSCRAMSHA256, nil)()
		require.NoError(t, c.Begin("u", "p", ""))
		first, err := c.Step("")
		require.NoError(t, err)
		_, nonce, _ = strings.Cut(first, ",r=")
		return c, nonce
	}
	c, _ := begin(t)
	_, err := c.Step("r=another,s=c2FsdA==,i=4096")
	require.Error(t, err, "a nonce that is not ours")
	c, nonce := begin(t)
	_, err = c.Step("r=" + nonce + "x,s=c2FsdA==,i=1")
	require.Error(t, err, "a hash that is no work to guess")
	c, nonce = begin(t)
	answer, err := c.Step("r=" + nonce + "x,s=c2FsdA==,i=4096")
	require.NoError(t, err)
	assert.Contains(t, answer, ",p=")
	_, err = c.Step("v=c2FsdA==")
	require.Error(t, err, "it cannot prove that it knows the password")
	assert.False(t, c.Done())
}
