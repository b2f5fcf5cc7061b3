// Package digest is the one kind of digest that packs and images are known by, and the one error for bytes that do not match theirs.
package digest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	"osaurus-sandbox/internal/fault"
)

// SHA256 is a digest. Its text form is 64 lower-case hexadecimal digits.
type SHA256 [sha256.Size]byte

// Parse reads a digest's text form.
func Parse(s string) (SHA256, error) {
	var d SHA256
	return d, d.UnmarshalText([]byte(s))
}

// MustParse is Parse for digests that are written in the program.
func MustParse(s string) SHA256 {
	d, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

// String returns the text form.
func (d SHA256) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether no digest is known.
func (d SHA256) IsZero() bool { return d == SHA256{} }

// MarshalText returns the text form.
func (d SHA256) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text form, and only that: one digest, one spelling.
func (d *SHA256) UnmarshalText(text []byte) error {
	var parsed SHA256
	if len(text) != hex.EncodedLen(len(parsed)) {
		return fault.Newf(fault.InvalidArgs, "parse digest", "", "%d characters, want %d", len(text), hex.EncodedLen(len(parsed)))
	}
	if _, err := hex.Decode(parsed[:], text); err != nil {
		return fault.New(fault.InvalidArgs, "parse digest", string(text), err)
	}
	if parsed.String() != string(text) {
		return fault.Newf(fault.InvalidArgs, "parse digest", string(text), "it has upper-case digits")
	}
	*d = parsed
	return nil
}

// Sum returns the digest of what was written to h, which sha256.New made.
func Sum(h hash.Hash) SHA256 { return SHA256(h.Sum(nil)) }

// Of reads r to its end and returns the digest and the length of what came.
func Of(ctx context.Context, r io.Reader) (SHA256, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, contextReader{ctx, r})
	return Sum(h), n, err
}

// OfFile is Of for a file.
func OfFile(ctx context.Context, path string) (SHA256, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return SHA256{}, 0, err
	}
	defer f.Close()
	return Of(ctx, f)
}

// takeAgain is what to do about a file of which nothing more is known.
const takeAgain = "Take it again from where it came, or have it made anew."

// Mismatch is the error for a file whose bytes are not those that were pinned.
// Who knows better what to do gives it another advice.
func Mismatch(op, file string, want, got SHA256) *fault.Error {
	return fault.Newf(fault.Rejected, op, file, "its SHA-256 is %s, but %s is pinned", got, want).Advise(takeAgain)
}

// Checked returns a reader of r that fails with Mismatch in place of io.EOF
// when what was read is not of the given size and digest, and once the context
// has ended. Only who has read to the end knows that the bytes were right.
func Checked(ctx context.Context, r io.Reader, file string, size int64, want SHA256) io.Reader {
	return &checked{r: contextReader{ctx, r}, file: file, left: size, want: want, hash: sha256.New()}
}

type checked struct {
	r    io.Reader
	file string
	left int64
	want SHA256
	hash hash.Hash
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, fault.Newf(fault.Rejected, "read", c.file, "it is longer than it was pinned to be").Advise(takeAgain)
	}
	c.hash.Write(p[:n])
	if err == io.EOF {
		if got := Sum(c.hash); got != c.want {
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
