package secretservice

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// TestAgree checks that the shared secret is padded to the length of the prime. One in 256
// begins with a zero.
func TestAgree(t *testing.T) {
	one, onesHalf, err := newKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	other, othersHalf, err := newKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	a, err := one.agree(othersHalf)
	b, err2 := other.agree(onesHalf)
	if err != nil || err2 != nil || !bytes.Equal(a, b) || len(a) != 16 {
		t.Errorf("%x and %x, %v, %v", a, b, err, err2)
	}

	// With an exponent of 1, the shared secret is the other public key: 2⁸.
	short := make([]byte, groupSize)
	short[groupSize-2] = 1
	want, err := hkdf.Key(sha256.New, short, nil, "", 16)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (privateKey{big.NewInt(1)}).agree([]byte{1, 0}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v, want %x", got, err, want)
	}

	for _, none := range [][]byte{nil, {0}, {1}, prime().Bytes(), new(big.Int).Sub(prime(), big.NewInt(1)).Bytes(), bytes.Repeat([]byte{0xff}, groupSize+1)} {
		if key, err := one.agree(none); err == nil {
			t.Errorf("%x is taken: %x", none, key)
		}
	}
}

func TestSeal(t *testing.T) {
	s := &session{key: make(sessionKey, 16)}
	for size := range 40 {
		text := strings.Repeat("x", size)
		sealed, err := s.seal([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if size > 3 && bytes.Contains(sealed.Value, []byte(text)) {
			t.Errorf("%q is open in %q", text, sealed.Value)
		}
		if back, err := s.unseal(sealed); err != nil || string(back) != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
}

// FuzzUnseal opens any answer of a keyring.
func FuzzUnseal(f *testing.F) {
	s := &session{key: make(sessionKey, 16)}
	good, err := s.seal([]byte("text"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.Parameters, good.Value)
	f.Add([]byte{}, []byte{})
	f.Add(good.Parameters, slices.Concat(good.Value, good.Value))
	f.Fuzz(func(t *testing.T, iv, value []byte) {
		text, err := s.unseal(sealedSecret{Parameters: iv, Value: value})
		if err == nil && (len(text) >= len(value) || len(iv) != 16) {
			t.Errorf("%x %x is %x", iv, value, text)
		}
	})
}
