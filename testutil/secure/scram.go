package secure

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"hash"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

func unique() string { return strings.ToLower(rand.Text()[:8]) }

// scram is the client's side of RFC 5802, as a user of sarama brings it. It asks for the password at each log-in.
type scram struct {
	mechanism          sarama.SASLMechanism
	password           func() string
	user, first, nonce string
	step               int
}

// Begin starts an exchange. The password of the configuration is an old one.
func (s *scram) Begin(user, _, _ string) error {
	s.user, s.nonce, s.step = user, rand.Text(), 0
	return nil
}

// Step answers the server.
func (s *scram) Step(challenge string) (string, error) {
	s.step++
	switch s.step {
	case 1:
		s.first = "n=" + s.user + ",r=" + s.nonce
		return "n,," + s.first, nil
	case 2:
		return s.prove(challenge)
	}
	return "", nil
}

// Done tells whether the exchange is over.
func (s *scram) Done() bool { return s.step >= 3 }

func (s *scram) prove(challenge string) (string, error) {
	field := map[byte]string{}
	for f := range strings.SplitSeq(challenge, ",") {
		field[f[0]] = f[2:]
	}
	salt, err := base64.StdEncoding.DecodeString(field['s'])
	if err != nil {
		return "", err
	}
	rounds, err := strconv.Atoi(field['i'])
	if err != nil {
		return "", err
	}
	newHash, size := sha256.New, sha256.Size
	if s.mechanism == sarama.SASLTypeSCRAMSHA512 {
		newHash, size = sha512.New, sha512.Size
	}
	salted, err := pbkdf2.Key(newHash, s.password(), salt, rounds, size)
	if err != nil {
		return "", err
	}
	key := sign(newHash, salted, "Client Key")
	stored := newHash()
	stored.Write(key)
	bare := "c=biws,r=" + field['r']
	signature := sign(newHash, stored.Sum(nil), s.first+","+challenge+","+bare)
	for i := range key {
		key[i] ^= signature[i]
	}
	return bare + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func sign(newHash func() hash.Hash, key []byte, text string) []byte {
	h := hmac.New(newHash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
