package protocol

import (
	"bytes"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

func TestDataHeader(t *testing.T) {
	want := DataHeader{Key: Key([]byte(strings.Repeat("k", KeySize)))}
	for _, want.User = range []string{"agent-alice", ""} {
		from := strings.NewReader(string(want.Bytes()) + "POST /")
		got, err := ReadDataHeader(from)
		if rest, _ := io.ReadAll(from); err != nil || got != want || string(rest) != "POST /" {
			t.Errorf("%+v, %v, then %q", got, err, rest)
		}
	}
}

// FuzzDataHeader checks that reading undoes Bytes and takes no byte behind the header.
func FuzzDataHeader(f *testing.F) {
	f.Add(append(DataHeader{User: "agent-alice"}.Bytes(), "POST /"...))
	f.Add([]byte(dataMark))
	f.Add([]byte("PRI * HTTP/2.0\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from := bytes.NewReader(b)
		h, err := ReadDataHeader(from)
		if err != nil {
			return
		}
		if read := b[:len(b)-from.Len()]; !bytes.Equal(h.Bytes(), read) {
			t.Errorf("%q was read as %+v", read, h)
		}
	})
}

func TestCaller(t *testing.T) {
	for plugin, end := range map[config.PluginID]string{"": "00", "rss": "03727373"} {
		c := Caller{Key: NewBridgeKey(), UID: 0x01020304, Plugin: plugin}
		b := c.Bytes()
		// Host and guest programs are not updated together, so the bytes are fixed.
		if want := "4f53415542524732" + hex.EncodeToString(c.Key[:]) + "01020304" + end; hex.EncodeToString(b) != want {
			t.Errorf("%x, want %s", b, want)
		}
		rest := bytes.NewReader(append(b, "GET /"...))
		if got, err := ReadCaller(rest, c.Key); err != nil || got != c || rest.Len() != len("GET /") {
			t.Errorf("%+v %v, and %d bytes are left", got, err, rest.Len())
		}
		if NewBridgeKey() == c.Key {
			t.Error("two boots have the same key")
		}
	}
}

func TestCallerRefused(t *testing.T) {
	key := NewBridgeKey()
	good := Caller{Key: key, UID: 2001}.Bytes()
	for _, name := range []string{"A", "../x", "a b", "x\n"} {
		bad := append(bytes.Clone(good[:len(good)-1]), append([]byte{byte(len(name))}, name...)...)
		if c, err := ReadCaller(bytes.NewReader(bad), key); err == nil {
			t.Errorf("plugin %q passed: %+v", name, c)
		}
	}
	for i := range len(good) - 5 { // the last five are the user and the plugin's length
		bad := bytes.Clone(good)
		bad[i] ^= 1 << rand.N(8)
		if _, err := ReadCaller(bytes.NewReader(bad), key); fault.KindOf(err) != fault.Rejected {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	for n := range good {
		if _, err := ReadCaller(bytes.NewReader(good[:n]), key); err == nil {
			t.Errorf("%d bytes are enough", n)
		}
	}
}

// FuzzCaller checks that nothing passes without the key, and that reading undoes Bytes.
func FuzzCaller(f *testing.F) {
	key := BridgeKey(bytes.Repeat([]byte("k"), KeySize))
	f.Add(Caller{Key: key, UID: 2001}.Bytes())
	f.Add(Caller{Key: key, UID: 2001, Plugin: "rss-watch"}.Bytes())
	f.Add(append(Caller{Key: key}.Bytes(), "GET / HTTP/1.1\r\n"...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: bridge\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.NewReader(b)
		c, err := ReadCaller(in, key)
		if err != nil {
			if c != (Caller{}) {
				t.Errorf("%v, and yet %+v", err, c)
			}
			return
		}
		rest, _ := io.ReadAll(in)
		if !bytes.Equal(append(c.Bytes(), rest...), b) || c.Key != key {
			t.Errorf("%x is read as %+v", b, c)
		}
	})
}
