package protocol

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// ContentHeader says how many bytes follow a request's message in its body.
const ContentHeader = "Osaurus-Content"

// Content is the file content that follows a call's message. Sending it inside messages would copy
// it once more and allocate.
type Content struct {
	io.Reader
	Size uint64
}

type contentKey struct{}

// WithContent returns a context whose call sends content.
func WithContent(ctx context.Context, c Content) context.Context {
	return context.WithValue(ctx, contentKey{}, c)
}

// ContentOf returns the unread content of a call.
func ContentOf(ctx context.Context) Content {
	c, _ := ctx.Value(contentKey{}).(Content)
	return c
}

// SendContent appends the context's content to a request's body. The request can be sent only
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

// TakeContent moves the content from a request's body to its context.
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

// body replaces the reader of a body.
type body struct {
	io.Reader
	io.Closer
}
