package client

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

const (
	maxLine    = 4 << 10 // of a head, and of what announces a chunk; the bridge's longest is a tenth of it
	maxHeaders = 64      // the bridge sends some ten
)

var errAnswer = errors.New("this is no answer in HTTP")

// head is what comes before an answer's body.
type head struct {
	status     int
	length     int64 // of the body; -1 if it was not said
	chunked    bool
	last       bool // the connection ends with the body
	retryAfter string
}

// readHead reads the head of an answer. One that another reader of HTTP might
// take for something else is an error.
func readHead(r *bufio.Reader) (head, error) {
	h := head{length: -1}
	line, err := readLine(r)
	if err != nil {
		return head{}, err
	}
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	h.status, err = strconv.Atoi(code)
	if version != "HTTP/1.1" || err != nil || len(code) != 3 || h.status < 200 || h.status > 599 {
		return head{}, errAnswer
	}
	for range maxHeaders {
		if line, err = readLine(r); err != nil {
			return head{}, noEOF(err)
		}
		if line == "" {
			return h, h.check()
		}
		if err := h.take(line); err != nil {
			return head{}, err
		}
	}
	return head{}, errAnswer
}

// take reads one header.
func (h *head) take(line string) error {
	name, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	if !ok || !headerName(name) || !headerValue(value) {
		return errAnswer
	}
	switch strings.ToLower(name) {
	case "content-length":
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil || h.length >= 0 {
			return errAnswer
		}
		h.length = int64(n)
	case "transfer-encoding":
		if h.chunked || !strings.EqualFold(value, "chunked") {
			return errAnswer
		}
		h.chunked = true
	case "connection":
		h.last = h.last || strings.EqualFold(value, "close")
	case "retry-after":
		h.retryAfter = value
	}
	return nil
}

// check refuses a body whose end two readers would see in two places.
func (h *head) check() error {
	if h.chunked && h.length >= 0 {
		return errAnswer
	}
	if h.status == 204 || h.status == 304 {
		h.chunked, h.length = false, 0
	}
	h.last = h.last || !h.chunked && h.length < 0
	return nil
}

// body reads what comes after the head, and no byte more. Its end before it was
// due is io.ErrUnexpectedEOF.
func (h *head) body(r *bufio.Reader) io.Reader {
	switch {
	case h.chunked:
		return &chunks{r: r}
	case h.length >= 0:
		return &exactly{r: r, left: h.length}
	}
	return r
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) || len(line) > 0 && errors.Is(err, io.EOF) {
			return "", errAnswer
		}
		return "", err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok {
		return "", errAnswer
	}
	return text, nil
}

// noEOF is for an end where there should be more.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// exactly reads a body of a length that was said.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if e.left > 0 {
		err = noEOF(err)
	}
	return n, err
}

// chunks reads a body that comes in chunks, each with its length before it.
type chunks struct {
	r    *bufio.Reader
	left int64
	some bool // a chunk was read, and its line's end is still to come
	over bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 && !c.over {
		if err := c.next(); err != nil {
			return 0, noEOF(err)
		}
	}
	if c.over {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, noEOF(err)
}

// next reads how long the next chunk is. After the last there is an empty
// line: the bridge has no trailers.
func (c *chunks) next() error {
	if c.some {
		if line, err := readLine(c.r); err != nil || line != "" {
			return orAnswer(err)
		}
	}
	line, err := readLine(c.r)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(line, 16, 62)
	if err != nil {
		return errAnswer
	}
	c.left, c.some = int64(n), true
	if n == 0 {
		c.over = true
		if line, err := readLine(c.r); err != nil || line != "" {
			c.over = false
			return orAnswer(err)
		}
	}
	return nil
}

func orAnswer(err error) error {
	if err == nil {
		return errAnswer
	}
	return err
}
