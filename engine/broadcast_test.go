package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// all reads a reader to its end.
func all(t *testing.T, r *Reader) (out, errs string, end error) {
	t.Helper()
	var text [3]strings.Builder
	for {
		chunk, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return text[Stdout].String(), text[Stderr].String(), nil
		}
		if err != nil {
			return text[Stdout].String(), text[Stderr].String(), err
		}
		text[chunk.Stream].Write(chunk.Data)
	}
}

func write(t *testing.T, b *Broadcast, s Stream, text string) {
	t.Helper()
	if n, err := b.Writer(s).Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
}

func TestFirstReaderGetsAllAndLaterOnesTheRest(t *testing.T) {
	b := NewBroadcast(0)
	write(t, b, Stdout, "one ")
	write(t, b, Stderr, "oops")
	first := b.Join()
	second := b.Join()
	write(t, b, Stdout, "two ")
	third := b.Join()
	write(t, b, Stdout, "three")
	b.Close()
	write(t, b, Stdout, "four")
	for i, want := range []string{"one two three", "two three", "three", ""} {
		r := b.Join()
		if i < 3 {
			r = []*Reader{first, second, third}[i]
		}
		out, errs, err := all(t, r)
		if out != want || (errs == "oops") != (i == 0) || err != nil {
			t.Errorf("reader %d gets %q, %q, %v, want %q", i, out, errs, err, want)
		}
	}
}

func TestLimitIsForBothStreams(t *testing.T) {
	for _, c := range []struct {
		limit     int64
		truncated bool
		out, errs string
	}{
		{0, false, "abcdef", "ABCD"},
		{10, false, "abcdef", "ABCD"},
		{9, true, "abcdef", "ABC"},
		{6, true, "abcdef", ""},
		{1, true, "a", ""},
	} {
		b := NewBroadcast(c.limit)
		write(t, b, Stdout, "abcdef")
		write(t, b, Stderr, "ABCD")
		b.Close()
		out, errs, err := all(t, b.Join())
		if out != c.out || errs != c.errs || b.Truncated() != c.truncated || err != nil {
			t.Errorf("limit %d: %q, %q, truncated %v, %v; want %q, %q, %v", c.limit, out, errs, b.Truncated(), err, c.out, c.errs, c.truncated)
		}
	}
}

func TestWrittenBufferMayBeUsedAgain(t *testing.T) {
	b := NewBroadcast(0)
	buffer := []byte("kept")
	if _, err := b.Writer(Stdout).Write(buffer); err != nil {
		t.Fatal(err)
	}
	copy(buffer, "gone")
	b.Close()
	if out, _, _ := all(t, b.Join()); out != "kept" {
		t.Errorf("the reader gets %q", out)
	}
}

func TestSlowReaderIsLeftBehind(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		b := NewBroadcast(0)
		slow, quick := b.Join(), b.Join()
		const chunks = 3 * QueueBytes >> 10
		var got int
		var read sync.WaitGroup
		read.Go(func() {
			out, _, err := all(t, quick)
			got = len(out)
			if err != nil {
				t.Error(err)
			}
		})
		begun := time.Now()
		for range chunks {
			write(t, b, Stdout, strings.Repeat("x", 1<<10))
		}
		if took := time.Since(begun); took != Patience {
			t.Errorf("a reader that takes nothing holds the command up for %s, want %s", took, Patience)
		}
		b.Close()
		read.Wait()
		if got != chunks<<10 {
			t.Errorf("the other reader gets %d bytes of %d", got, chunks<<10)
		}
		out, _, err := all(t, slow)
		if fault.KindOf(err) != fault.Timeout || fault.AdviceOf(err) == "" || len(out) > QueueBytes || len(out) < QueueBytes*9/10 {
			t.Errorf("the slow reader gets %d bytes and %v; want about %d and a timeout with advice", len(out), err, QueueBytes)
		}
	})
}

func TestReaderThatKeepsReadingLosesNothing(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		b := NewBroadcast(0)
		r := b.Join()
		const chunks = 40
		var write sync.WaitGroup
		write.Go(func() {
			for i := range chunks {
				_, _ = b.Writer(Stdout).Write(bytes.Repeat([]byte{byte(i)}, QueueBytes/4))
			}
			b.Close()
		})
		var out []byte
		for {
			time.Sleep(Patience - time.Millisecond)
			chunk, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, chunk.Data...)
		}
		write.Wait()
		for i := range chunks {
			if part := out[i*QueueBytes/4 : (i+1)*QueueBytes/4]; part[0] != byte(i) || part[len(part)-1] != byte(i) {
				t.Fatalf("chunk %d is %d", i, part[0])
			}
		}
	})
}

func TestNobodyWaitsForReaderThatLeft(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		b := NewBroadcast(0)
		r := b.Join()
		time.AfterFunc(time.Second, r.Close)
		begun := time.Now()
		for range 5 {
			write(t, b, Stdout, strings.Repeat("x", QueueBytes))
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the command went on %s after the reader left", took-time.Second)
		}
		if _, err := r.Next(t.Context()); err != io.EOF {
			t.Errorf("a reader that left gets %v", err)
		}
		r.Close()
	})
}

func TestCloseFreesWriter(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		b := NewBroadcast(0)
		write(t, b, Stdout, strings.Repeat("x", QueueBytes))
		time.AfterFunc(time.Second, b.Close)
		begun := time.Now()
		write(t, b, Stdout, "y")
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the write took %s", took)
		}
		b.Close()
	})
}

func TestChunkLargerThanQueue(t *testing.T) {
	b := NewBroadcast(0)
	text := strings.Repeat("x", 3*QueueBytes)
	write(t, b, Stdout, text)
	b.Close()
	if out, _, err := all(t, b.Join()); out != text || err != nil {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func TestQueueOfSingleBytesIsBounded(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		b := NewBroadcast(0)
		for range 2 * QueueBytes / chunkBytes {
			write(t, b, Stdout, "x")
		}
		if n := len(b.Join().queue); n > QueueBytes/chunkBytes {
			t.Errorf("%d chunks wait", n)
		}
	})
}

func TestEveryReaderSeesTheSameOrder(t *testing.T) {
	b := NewBroadcast(0)
	readers := []*Reader{b.Join(), b.Join(), b.Join()}
	var writers sync.WaitGroup
	for _, s := range []Stream{Stdout, Stderr} {
		writers.Go(func() {
			for i := range 500 {
				_, _ = fmt.Fprintf(b.Writer(s), "%s%d ", s, i)
			}
		})
	}
	writers.Wait()
	b.Close()
	var texts [3]string
	for i, r := range readers {
		for chunk, err := r.Next(t.Context()); err == nil; chunk, err = r.Next(t.Context()) {
			texts[i] += string(chunk.Data)
		}
	}
	if texts[0] != texts[1] || texts[0] != texts[2] || len(texts[0]) == 0 {
		t.Error("readers see both streams in different orders")
	}
}

func TestNextEndsWithContext(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		b := NewBroadcast(0)
		r := b.Join()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Next(ctx); fault.KindOf(err) != fault.Timeout {
			t.Errorf("Next = %v, want a timeout", err)
		}
		write(t, b, Stdout, "still there")
		b.Close()
		if out, _, err := all(t, r); out != "still there" || err != nil {
			t.Errorf("afterwards %q, %v", out, err)
		}
	})
}

func TestManyMayReadFromOneReader(t *testing.T) {
	b := NewBroadcast(0)
	r := b.Join()
	var mu sync.Mutex
	var got int
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			out, _, err := all(t, r)
			mu.Lock()
			defer mu.Unlock()
			if got += len(out); err != nil {
				t.Error(err)
			}
		})
	}
	for range 1000 {
		write(t, b, Stdout, "x")
	}
	b.Close()
	readers.Wait()
	if got != 1000 {
		t.Errorf("together they get %d bytes", got)
	}
}
