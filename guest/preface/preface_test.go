package preface_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/preface"
	"osaurus-sandbox/internal/fault"
)

func TestPreface(t *testing.T) {
	for plugin, end := range map[config.PluginID]string{"": "00", "rss": "03727373"} {
		try(t, preface.Preface{Key: preface.NewKey(), UID: 0x01020304, Plugin: plugin}, end)
	}
}

func try(t *testing.T, p preface.Preface, end string) {
	t.Helper()
	b := p.Bytes()
	// Both ends of a wire whose programs are not updated together.
	if want := "4f53415542524732" + hex.EncodeToString(p.Key[:]) + "01020304" + end; hex.EncodeToString(b) != want {
		t.Errorf("%x, want %s", b, want)
	}
	rest := bytes.NewReader(append(b, "GET /"...))
	if got, err := preface.Read(rest, p.Key); err != nil || got != p || rest.Len() != len("GET /") {
		t.Errorf("%+v %v, and %d bytes are left", got, err, rest.Len())
	}
	if next := preface.NewKey(); next == p.Key {
		t.Error("two boots have the same key")
	}
}

func TestRefused(t *testing.T) {
	key := preface.NewKey()
	good := preface.Preface{Key: key, UID: 2001}.Bytes()
	for _, name := range []string{"A", "../x", "a b", "x\n"} {
		bad := append(bytes.Clone(good[:len(good)-1]), append([]byte{byte(len(name))}, name...)...)
		if p, err := preface.Read(bytes.NewReader(bad), key); err == nil {
			t.Errorf("%q is a plugin: %+v", name, p)
		}
	}
	for i := range len(good) - 5 { // the last five are the user, and that there is no plugin
		bad := bytes.Clone(good)
		bad[i] ^= 1 << rand.N(8)
		if _, err := preface.Read(bytes.NewReader(bad), key); fault.KindOf(err) != fault.Rejected {
			t.Errorf("with another byte %d: %v", i, err)
		}
	}
	for n := range good {
		if _, err := preface.Read(bytes.NewReader(good[:n]), key); err == nil {
			t.Errorf("%d bytes are enough", n)
		}
	}
}

// FuzzRead: whatever comes, only who has the key is somebody, and what follows is left.
func FuzzRead(f *testing.F) {
	key := preface.Key(bytes.Repeat([]byte("k"), preface.KeySize))
	f.Add(preface.Preface{Key: key, UID: 2001}.Bytes())
	f.Add(preface.Preface{Key: key, UID: 2001, Plugin: "rss-watch"}.Bytes())
	f.Add(append(preface.Preface{Key: key}.Bytes(), "GET / HTTP/1.1\r\n"...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: bridge\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.NewReader(b)
		p, err := preface.Read(in, key)
		if err != nil {
			if p != (preface.Preface{}) {
				t.Errorf("%v, and yet %+v", err, p)
			}
			return
		}
		rest, _ := io.ReadAll(in)
		if !bytes.Equal(append(p.Bytes(), rest...), b) || p.Key != key {
			t.Errorf("%x is read as %+v", b, p)
		}
	})
}
