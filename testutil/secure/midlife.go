package secure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

func contains(err error, part string) bool { return strings.Contains(err.Error(), part) }

// midlife: what a running member does when it is not accepted any more, and when it is again.
func midlife(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	t.Run("a changed password stops hand-out when connections end", func(t *testing.T) {
		l := newLab(t, open, SASLTLS)
		password := l.changing(sarama.SASLTypeSCRAMSHA512)
		l.outage(login{mechanism: sarama.SASLTypeSCRAMSHA512, user: Worker, password: password.get}, refusal, func(p *process) {
			l.setPassword(sarama.SASLTypeSCRAMSHA512, "changed")
			p.w.cut()
		}, func() { password.set("changed") })
	})
	t.Run("a changed password stops hand-out when sessions end", func(t *testing.T) {
		l := newLab(t, open, SASL)
		password := l.changing(sarama.SASLTypeSCRAMSHA256)
		l.outage(login{mechanism: sarama.SASLTypeSCRAMSHA256, user: Worker, password: password.get}, refusal, func(*process) {
			l.setPassword(sarama.SASLTypeSCRAMSHA256, "changed")
		}, func() { password.set("changed") })
	})
	for _, c := range []struct {
		name, says string
		give       func() (*sarama.AccessToken, error)
	}{
		{"no tokens", "the service of tokens is away", func() (*sarama.AccessToken, error) { return nil, errors.New("the service of tokens is away") }},
		{"expired tokens", refusal, func() (*sarama.AccessToken, error) { return token(-time.Minute), nil }},
	} {
		t.Run("a provider that gives "+c.name+" stops hand-out when connections end", func(t *testing.T) {
			l := newLab(t, open, SASLTLS)
			if !l.Tokens {
				t.Skip("no OAUTHBEARER")
			}
			p := &provider{}
			good := func() (*sarama.AccessToken, error) { return token(time.Hour), nil }
			p.give.Store(&good)
			l.outage(login{mechanism: sarama.SASLTypeOAuth, tokens: p}, c.says, func(process *process) {
				p.give.Store(&c.give)
				process.w.cut()
			}, func() { p.give.Store(&good) })
		})
	}
	t.Run("a certificate that nobody trusts stops hand-out when connections end", func(t *testing.T) {
		l := newLab(t, open, TLS)
		other, err := testutil.NewAuthority()
		require.NoError(t, err)
		l.outage(login{}, refusal, func(p *process) {
			l.serve(other, time.Hour)
			p.w.cut()
		}, func() { l.serve(l.Authority, time.Hour) })
	})
	t.Run("sessions are renewed without a gap", func(t *testing.T) { renewals(t, open) })
}

// provider gives tokens of OAUTHBEARER.
type provider struct {
	give atomic.Pointer[func() (*sarama.AccessToken, error)]
}

// Token is what sarama asks for.
func (p *provider) Token() (*sarama.AccessToken, error) { return (*p.give.Load())() }

// token is one that nobody has signed, for the worker, and ends in d.
func token(d time.Duration) *sarama.AccessToken {
	end := time.Now().Add(d)
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, Worker, end.Add(-2*time.Hour).Unix(), end.Unix())
	return &sarama.AccessToken{Token: part(`{"alg":"none"}`) + "." + part(claims) + "."}
}

// password is what a process logs in with from now on.
type password struct{ atomic.Pointer[string] }

func (p *password) get() string  { return *p.Load() }
func (p *password) set(s string) { p.Store(&s) }

// changing is the worker's password of a mechanism, which is put back at the end of the test.
func (l *lab) changing(mechanism sarama.SASLMechanism) *password {
	p := &password{}
	p.set(Secret(Worker))
	l.t.Cleanup(func() { l.setPassword(mechanism, Secret(Worker)) })
	return p
}

func (l *lab) setPassword(mechanism sarama.SASLMechanism, secret string) {
	l.t.Helper()
	m := sarama.SCRAM_MECHANISM_SHA_256
	if mechanism == sarama.SASLTypeSCRAMSHA512 {
		m = sarama.SCRAM_MECHANISM_SHA_512
	}
	rs, err := l.admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{
		{Name: Worker, Mechanism: m, Iterations: 4096, Salt: []byte(unique()), Password: []byte(secret)},
	})
	require.NoError(l.t, err)
	for _, r := range rs {
		require.Equal(l.t, sarama.ErrNoError, r.ErrorCode)
	}
}

// refusal is in every text that tells of one.
const refusal = "authentication failed"

// outage breaks what a member is accepted by, and mends it. The log must say why hand-out stops.
func (l *lab) outage(who login, says string, breakIt func(*process), mend func()) {
	t := l.t
	topic, group := l.names(2)
	p := l.mustJoin("a", group, who).consume(topic)
	l.produce(topic, 2, 5)
	eventually(t, "reads", func() bool { return p.count() == 10 })

	breakIt(p)
	eventually(t, "hand-out stops, and the log says why", func() bool { return p.told.has("warning", "hand-out is suspended") })
	eventually(t, "what to check", func() bool {
		return p.told.has("warning", says) || l.Silent && p.told.has("warning", "check TLS, SASL and the credentials")
	})
	eventually(t, "health says it too", func() bool {
		err := p.m.Healthy()
		return errors.Is(err, marshal.ErrSuspended) && (errors.Is(err, marshal.ErrAuthentication) || l.Silent || says != refusal)
	})
	at := p.count()
	l.produce(topic, 2, 5)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := p.c.FetchMessage(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "nobody hangs")
	assert.NotEmpty(t, p.m.State().Instances)
	assert.Equal(t, at, p.count(), "nothing is handed out meanwhile")

	mend()
	eventually(t, "hand-out goes on", func() bool { return p.count() >= 20 })
	l.committed(group, topic, 2, 10)
	assert.Equal(t, 20, p.count(), "nothing came twice")
	assert.NotErrorIs(t, p.m.Healthy(), marshal.ErrSuspended)
	p.end()
}

// renewals: SASL sessions end every few seconds, and nobody notices.
func renewals(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	l := newLab(t, open, SASL)
	p := l.busy(as(sarama.SASLTypeSCRAMSHA256, Worker), 3*l.Session+l.Session/2)
	assert.False(t, p.told.has("hand-out is suspended"))
}

// Renewals: where sessions are not too short they are renewed in time, on the connections that there are.
func Renewals(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	l := newLab(t, open, SASLTLS)
	require.NotZero(t, l.Renewable)
	p := l.busy(as(sarama.SASLTypePlaintext, Worker), l.Renewable+l.Renewable/4)
	assert.False(t, p.told.has("hand-out is suspended") || p.told.has("cannot"), "nothing to tell")
	assert.LessOrEqual(t, p.w.dials.Load(), p.dialled, "no connection was opened anew")
}

// heldUp measures, until what it gives is called, for how long at most the machine holds a goroutine up that wants to run each 10 ms.
func heldUp() (end func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var most time.Duration
	wg.Go(func() {
		each := time.NewTicker(10 * time.Millisecond)
		defer each.Stop()
		for last := time.Now(); ctx.Err() == nil; {
			<-each.C
			now := time.Now()
			most, last = max(most, now.Sub(last)-10*time.Millisecond), now
		}
	})
	return func() time.Duration { cancel(); wg.Wait(); return most }
}

// busy has a process read for a while what is produced.
func (l *lab) busy(who login, long time.Duration) *process {
	t := l.t
	topic, group := l.names(1)
	p := l.mustJoin("a", group, who).consume(topic)
	l.produce(topic, 1, 1)
	l.committed(group, topic, 1, 1)
	p.dialled = p.w.dials.Load()
	n := 1
	var slow time.Duration // what the broker itself took
	held := heldUp()
	for end := time.Now().Add(long); time.Now().Before(end); n++ {
		begin := time.Now()
		l.produce(topic, 1, 1)
		<-time.After(20 * time.Millisecond)
		slow = max(slow, time.Since(begin))
	}
	eventually(t, "reads all", func() bool { return p.count() >= n })
	machine := held()
	p.mu.Lock()
	t.Logf("figure: in %v: n=%d, longest time without a message %v (of the producer: %v), connections opened: %d, then %d",
		long, n, p.gap.Round(time.Millisecond), slow.Round(time.Millisecond), p.dialled, p.w.dials.Load()-p.dialled)
	assert.Less(t, p.gap, slow+machine+l.TTL/2, "the machine held a goroutine up for %v", machine)
	p.mu.Unlock()
	assert.Equal(t, n, p.count(), "nothing came twice")
	p.end()
	return p
}
