package guest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"osaurus-sandbox/internal/fault"
)

// TestSending checks that content is never sent whole if its size is not as announced.
func TestSending(t *testing.T) {
	const text = "0123456789"
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		from io.Reader
		said uint64
		want error
	}{
		"as announced":         {strings.NewReader(text), 10, nil},
		"byte by byte":         {iotest.OneByteReader(strings.NewReader(text)), 10, nil},
		"with its end":         {iotest.DataErrReader(strings.NewReader(text)), 10, nil},
		"nothing":              {strings.NewReader(""), 0, nil},
		"more":                 {strings.NewReader(text), 9, fault.New(fault.InvalidArgs, "", "", nil)},
		"more, byte by byte":   {iotest.OneByteReader(strings.NewReader(text)), 9, fault.New(fault.InvalidArgs, "", "", nil)},
		"fewer":                {strings.NewReader(text), 11, fault.New(fault.InvalidArgs, "", "", nil)},
		"fewer, with its end":  {iotest.DataErrReader(strings.NewReader(text)), 11, fault.New(fault.InvalidArgs, "", "", nil)},
		"broken":               {io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), 20, broken},
		"broken where it ends": {io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), 10, broken},
	} {
		s := &sending{from: tc.from, left: tc.said, sum: sha256.New()}
		var sent bytes.Buffer
		_, err := sent.ReadFrom(s)
		sum, failed := s.end()
		if tc.want != nil {
			if err != failed || fault.KindOf(err) != fault.KindOf(tc.want) || sum != nil || uint64(sent.Len()) >= tc.said {
				t.Errorf("%s: %v and %v, with %d bytes gone", name, err, failed, sent.Len())
			}
			continue
		}
		if want := sha256.Sum256(sent.Bytes()); err != nil || failed != nil || uint64(sent.Len()) != tc.said || !bytes.Equal(sum, want[:]) {
			t.Errorf("%s: %v and %v, %q, %x", name, err, failed, sent.String(), sum)
		}
	}
}
