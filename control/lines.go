package control

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const (
	jsonType    = "application/json"
	connectJSON = "application/connect+json"
	linesType   = "application/x-ndjson"

	// The envelope of Connect's streams: a byte of flags and four of length.
	envelopeSize = 5
	flagEnd      = 1 << 1
)

// jsonLines allows plain JSON for streaming calls, for curl for example: one value a line
// in both directions instead of Connect's envelopes. An error before the first answer
// becomes the HTTP status, a later one the last line: {"error": …}.
func jsonLines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := methodAt(r.URL.Path)
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if method == nil || !method.IsStreamingServer() || r.Method != http.MethodPost || kind != jsonType {
			next.ServeHTTP(w, r)
			return
		}
		in := r.Clone(r.Context())
		in.Header.Set("Content-Type", connectJSON)
		in.Header.Del("Accept-Encoding")
		in.ContentLength = -1
		split := oneMessage
		if method.IsStreamingClient() {
			split = bufio.ScanLines
			// Works with HTTP/1.1 too, if both ends agree.
			_ = http.NewResponseController(w).EnableFullDuplex()
			in.ProtoMajor = 2
		}
		in.Body = readCloser{envelopes(r.Body, split), r.Body}
		next.ServeHTTP(&lineWriter{ResponseWriter: w}, in)
	})
}

// methodAt returns the method at a path, or nil.
func methodAt(at string) protoreflect.MethodDescriptor {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(at, "/"), "/", "."))
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(name)
	method, _ := found.(protoreflect.MethodDescriptor)
	return method
}

// oneMessage is a bufio.SplitFunc for a body with one message, which may be empty.
func oneMessage(data []byte, atEOF bool) (int, []byte, error) {
	if !atEOF {
		return 0, nil, nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	return 0, data, bufio.ErrFinalToken
}

func envelope(message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(b, message...)
}

// envelopes reads messages and puts each into an envelope.
func envelopes(r io.Reader, split bufio.SplitFunc) io.Reader {
	messages := bufio.NewScanner(r)
	messages.Buffer(nil, maxMessage+1)
	messages.Split(split)
	return &pieces{next: func() ([]byte, error) {
		for messages.Scan() {
			if message := bytes.TrimSpace(messages.Bytes()); len(message) > 0 {
				return envelope(message), nil
			}
		}
		return nil, cmp.Or(messages.Err(), io.EOF)
	}}
}

// lineWriter writes the envelopes that it gets as lines. Connect's streams have the status
// 200, and the error in the last envelope.
type lineWriter struct {
	http.ResponseWriter
	sent bool   // the header is
	buf  []byte // an incomplete envelope
}

// WriteHeader does nothing: the first line decides.
func (w *lineWriter) WriteHeader(int) {}

// Flush does nothing: every line is flushed.
func (w *lineWriter) Flush() {}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for len(w.buf) >= envelopeSize {
		end := envelopeSize + int(binary.BigEndian.Uint32(w.buf[1:envelopeSize]))
		if len(w.buf) < end {
			break
		}
		if err := w.message(w.buf[0]&flagEnd != 0, w.buf[envelopeSize:end]); err != nil {
			return 0, err
		}
		w.buf = append(w.buf[:0], w.buf[end:]...)
	}
	return len(p), nil
}

func (w *lineWriter) message(end bool, text []byte) error {
	status, contentType, line := http.StatusOK, linesType, append(bytes.Clone(text), '\n')
	if end {
		var trailer struct {
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(text, &trailer); err != nil {
			return err
		}
		switch {
		case trailer.Error == nil:
			line = nil
		case w.sent:
			line = fmt.Appendf(nil, "{\"error\":%s}\n", trailer.Error)
		default:
			status, contentType, line = httpStatus(trailer.Error), jsonType, fmt.Appendln(nil, string(trailer.Error))
		}
	}
	if !w.sent {
		w.sent = true
		w.Header().Set("Content-Type", contentType)
		w.Header().Del("Connect-Content-Encoding")
		w.ResponseWriter.WriteHeader(status)
	}
	if _, err := w.ResponseWriter.Write(line); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// statuses are the HTTP statuses that Connect's unary calls have for errors. The others are
// internal server errors.
var statuses = map[string]int{
	connect.CodeInvalidArgument.String():    http.StatusBadRequest,
	connect.CodeFailedPrecondition.String(): http.StatusBadRequest,
	connect.CodeOutOfRange.String():         http.StatusBadRequest,
	connect.CodeUnauthenticated.String():    http.StatusUnauthorized,
	connect.CodePermissionDenied.String():   http.StatusForbidden,
	connect.CodeNotFound.String():           http.StatusNotFound,
	connect.CodeResourceExhausted.String():  http.StatusTooManyRequests,
	connect.CodeUnimplemented.String():      http.StatusNotImplemented,
	connect.CodeUnavailable.String():        http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded.String():   http.StatusGatewayTimeout,
}

func httpStatus(text []byte) int {
	var e struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(text, &e) // then it is an error of our own
	return cmp.Or(statuses[e.Code], http.StatusInternalServerError)
}
