package audit

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/config"
)

// A hash that was published stays true: the form of what is hashed is fixed.
func TestChainIsFixed(t *testing.T) {
	e := Entry{Seq: 1, Time: time.Unix(1_700_000_000, 5), UID: 1000, Agent: "alice", Client: "osaurus-sandbox exec",
		Action: "exec", Subject: "ls -l", Outcome: OK, Detail: "é"}
	const form = "0000000000000001" + "17979cfe362a0005" + "00000000000003e8" +
		"00000005616c696365" + "000000146f7361757275732d73616e64626f782065786563" +
		"0000000465786563" + "000000056c73202d6c" + "000000026f6b" + "00000002c3a9"
	if got := hex.EncodeToString(e.encode()); got != form {
		t.Errorf("encoded as\n%s, want\n%s", got, form)
	}
	const hash = "1b2ec208c7cb321dada5a61eebb29b2925cee5c3f6447c71a97945487a01ac7d"
	if got := e.chain(Hash{}).String(); got != hash {
		t.Errorf("hash %s, want %s", got, hash)
	}
}

// decode reads what encode wrote. That it can shows that no two entries are
// written alike.
func decode(b []byte) Entry {
	number := func() int64 {
		n := binary.BigEndian.Uint64(b)
		b = b[8:]
		return int64(n)
	}
	text := func() string {
		n := binary.BigEndian.Uint32(b)
		s := string(b[4 : 4+n])
		b = b[4+n:]
		return s
	}
	e := Entry{Seq: Seq(number()), Time: time.Unix(0, number()).UTC(), UID: int(number())}
	e.Agent, e.Client, e.Action = config.AgentName(text()), text(), text()
	e.Subject, e.Outcome, e.Detail = text(), Outcome(text()), text()
	if len(b) != 0 {
		panic("bytes are left over")
	}
	return e
}

func FuzzEncode(f *testing.F) {
	f.Add(int64(1), int64(2), 3, "alice", "client", "exec", "ls", "ok", "")
	f.Add(int64(-1), int64(-1), -1, "", "\x00\x00\x00\x01", "\xff", "a\nb", "", "\x00")
	f.Fuzz(func(t *testing.T, seq, nanos int64, uid int, agent, client, action, subject, outcome, detail string) {
		e := Entry{Seq(seq), time.Unix(0, nanos).UTC(), uid, config.AgentName(agent), client, action, subject, Outcome(outcome), detail, Hash{}}
		if got := decode(e.encode()); got != e {
			t.Errorf("%+v became %+v", e, got)
		}
		if f := e; f.chain(Hash{}) == f.chain(Hash{1}) {
			t.Error("the hash does not depend on what came before")
		}
		if e, err := e.check(); err == nil {
			for _, text := range []string{e.Client, e.Action, e.Subject, string(e.Outcome), e.Detail} {
				if !utf8.ValidString(text) || len(text) > maxText+200 {
					t.Errorf("%q", text)
				}
			}
		}
	})
}
