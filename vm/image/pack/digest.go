package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"osaurus-sandbox/internal/fault"
)

// Digest is a SHA-256 digest. Its text form is 64 lower-case hexadecimal digits.
type Digest [sha256.Size]byte

// MustParseDigest parses a digest that is written in the program.
func MustParseDigest(s string) Digest {
	var d Digest
	if err := d.UnmarshalText([]byte(s)); err != nil {
		panic(err)
	}
	return d
}

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether the digest is not set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the text form.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the text form and nothing else: a digest has one spelling.
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) || hex.EncodeToString(b) != string(text) {
		return fault.Newf(fault.InvalidArgs, "parse digest", "", "%.80q is not %d lower-case hexadecimal digits", text, hex.EncodedLen(len(d)))
	}
	copy(d[:], b)
	return nil
}

// Mismatch is the error for a file whose digest is not the pinned one.
func Mismatch(op, file string, want, got Digest) *fault.Error {
	return fault.Newf(fault.Rejected, op, file, "its SHA-256 is %s, but %s is pinned", got, want).Advise(getAgain)
}

func newCheckedReader(ctx context.Context, r io.Reader, name string, f File) io.Reader {
	return &checkedReader{r: contextReader{ctx, r}, file: name, left: f.Size, want: f.SHA256, hash: sha256.New()}
}

// checkedReader returns io.EOF only if everything read has the pinned size and digest.
type checkedReader struct {
	r    io.Reader
	file string
	left int64
	want Digest
	hash hash.Hash
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, fault.Newf(fault.Rejected, "read", c.file, "it is longer than its pinned size").Advise(getAgain)
	}
	c.hash.Write(p[:n])
	if err == io.EOF {
		if got := Digest(c.hash.Sum(nil)); got != c.want {
			return n, Mismatch("read", c.file, c.want, got)
		}
	}
	return n, err
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
