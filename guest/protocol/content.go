package protocol

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// ContentHeader says how many bytes follow a request's message in its body.
const ContentHeader = "Osaurus-Content"

// Content is what follows the message of a call: the bytes of a file as they are. In messages
// they would be copied once more, and be the collector's to free, which an emulated guest
// takes a third of its time for.
type Content struct {
	io.Reader
	Size uint64
}

type contentKey struct{}

// WithContent has a call that is made with the context bring content.
func WithContent(ctx context.Context, c Content) context.Context {
	return context.WithValue(ctx, contentKey{}, c)
}

// ContentOf is what came with a call, which nobody has read yet.
func ContentOf(ctx context.Context) Content {
	c, _ := ctx.Value(contentKey{}).(Content)
	return c
}

// SendContent is a request with the content of its context behind its message. It can be sent
// once.
func SendContent(r *http.Request) *http.Request {
	c, ok := r.Context().Value(contentKey{}).(Content)
	if !ok {
		return r
	}
	both := r.Clone(r.Context())
	both.Header.Set(ContentHeader, strconv.FormatUint(c.Size, 10))
	both.ContentLength += int64(c.Size)
	both.Body = body{io.MultiReader(r.Body, c), r.Body}
	both.GetBody = nil
	return both
}

// TakeContent has a handler see a request's message alone, and the content in its context.
func TakeContent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get(ContentHeader)
		if said == "" {
			next.ServeHTTP(w, r)
			return
		}
		size, err := strconv.ParseUint(said, 10, 63)
		if err != nil || int64(size) > r.ContentLength {
			http.Error(w, "no such content", http.StatusBadRequest)
			return
		}
		alone := r.WithContext(WithContent(r.Context(), Content{r.Body, size}))
		alone.ContentLength -= int64(size)
		alone.Body = body{io.LimitReader(r.Body, alone.ContentLength), r.Body}
		next.ServeHTTP(w, alone)
	})
}

// body is a body of which something else is read.
type body struct {
	io.Reader
	io.Closer
}
