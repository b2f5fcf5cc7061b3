package client

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answers are what the bridge, or something in its place, may send.
var answers = []string{
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n",
	"HTTP/1.1 429 Too Many Requests\r\nretry-after:  7 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhiXX0\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 99 Odd\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "",
	"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n",
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 8<<10) + "\r\n\r\n",
}

func readAnswer(sent []byte) (head, []byte, error) {
	r := bufio.NewReaderSize(bytes.NewReader(sent), maxLine)
	h, err := readHead(r)
	if err != nil {
		return head{}, nil, err
	}
	body, err := io.ReadAll(h.body(r))
	return h, body, err
}

func TestAnswers(t *testing.T) {
	for i, want := range []string{"{}", "hello0123456789", "", "until the end", ""} {
		h, body, err := readAnswer([]byte(answers[i]))
		if err != nil || string(body) != want {
			t.Errorf("%q is read as %q, %v", answers[i], body, err)
		}
		if ends := i == 2 || i == 3; h.last != ends {
			t.Errorf("%q ends its connection: %v", answers[i], h.last)
		}
	}
	for _, sent := range answers[5:] {
		if h, body, err := readAnswer([]byte(sent)); err == nil {
			t.Errorf("%q is read as %+v %q", sent, h, body)
		}
	}
}

// FuzzAnswer: what this reader takes for an answer, net/http takes for the
// same one.
func FuzzAnswer(f *testing.F) {
	for _, sent := range answers {
		f.Add([]byte(sent))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		h, body, err := readAnswer(sent)
		if err != nil {
			return
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), nil)
		if err != nil {
			t.Fatalf("net/http refuses what was read as %+v %q: %v", h, body, err)
		}
		theirs, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != h.status || !bytes.Equal(theirs, body) {
			t.Errorf("read as %d %q, by net/http as %d %q (%v)", h.status, body, r.StatusCode, theirs, err)
		}
	})
}
