package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// scram is the client's side of SCRAM (RFC 5802), which sarama leaves to its user.
type scram struct {
	hash                         func() hash.Hash
	user, password, first, nonce string
	server                       []byte // what it must prove
	step                         int
}

// Begin starts a conversation.
func (s *scram) Begin(user, password, _ string) error {
	s.user = strings.NewReplacer("=", "=3D", ",", "=2C").Replace(user)
	s.password, s.nonce, s.step = password, rand.Text(), 0
	return nil
}

// Step answers a challenge.
func (s *scram) Step(challenge string) (string, error) {
	s.step++
	switch s.step {
	case 1:
		s.first = "n=" + s.user + ",r=" + s.nonce
		return "n,," + s.first, nil
	case 2:
		return s.proof(challenge)
	}
	v, ok := strings.CutPrefix(challenge, "v=")
	if proof, err := base64.StdEncoding.DecodeString(v); !ok || err != nil || !hmac.Equal(proof, s.server) {
		return "", errors.New("the broker does not know the password: it is not the one that it says it is")
	}
	return "", nil
}

func (s *scram) proof(challenge string) (string, error) {
	field := map[string]string{}
	for _, f := range strings.Split(challenge, ",") {
		name, value, _ := strings.Cut(f, "=")
		field[name] = value
	}
	salt, err := base64.StdEncoding.DecodeString(field["s"])
	n, bad := strconv.Atoi(field["i"])
	if err = errors.Join(err, bad); err != nil || n < 4096 || !strings.HasPrefix(field["r"], s.nonce) {
		return "", fmt.Errorf("the broker's challenge cannot be answered: %w", errors.Join(err, errors.New(challenge)))
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, n, s.hash().Size())
	if err != nil {
		return "", err
	}
	key := s.sum(salted, "Client Key")
	h := s.hash()
	h.Write(key)
	bare := "c=biws,r=" + field["r"]
	signed := s.first + "," + challenge + "," + bare
	s.server = s.sum(s.sum(salted, "Server Key"), signed)
	for i, b := range s.sum(h.Sum(nil), signed) {
		key[i] ^= b
	}
	return bare + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func (s *scram) sum(key []byte, text string) []byte {
	h := hmac.New(s.hash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Done tells whether the conversation is over.
func (s *scram) Done() bool { return s.step >= 3 }
