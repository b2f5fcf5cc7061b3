package image_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
)

// flip changes one bit in the middle of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	b := read(t, path)
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFlippedBitInAnImage(t *testing.T) {
	p := smallPack(t, "one")
	for _, which := range []string{"kernel", "initrd", "base"} {
		t.Run(which, func(t *testing.T) {
			s := newStore(t, "init")
			i := ensure(t, s, p)
			path := map[string]string{"kernel": i.Kernel, "initrd": i.Initrd, "base": i.Base}[which]
			flip(t, path)
			err := i.Verify(t.Context())
			if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), path) || len(digests.FindAllString(err.Error(), -1)) != 2 {
				t.Fatalf("Verify = %v, want one that names %s and two digests", err, path)
			}
			if !strings.Contains(fault.AdviceOf(err), "pack build") {
				t.Errorf("advice is %q", fault.AdviceOf(err))
			}
			// A later program finds it too, and can rebuild it.
			again, err := s.Ensure(t.Context(), p, nil)
			if err != nil || again.Verify(t.Context()) == nil {
				t.Fatalf("a later program sees nothing (%v)", err)
			}
			if why, err := s.DiscardBroken(t.Context(), again); err != nil || why == nil || !strings.Contains(why.Error(), path) {
				t.Fatalf("DiscardBroken = %v, %v, want that it was %s", why, err, path)
			}
			if built := ensure(t, s, p); built.Digest != i.Digest {
				t.Errorf("built again it is %s, before %s", built.Digest, i.Digest)
			}
		})
	}
	for what, damage := range map[string]func(image.Image) error{
		"a cut base":   func(i image.Image) error { return os.Truncate(i.Base, 8192) },
		"no kernel":    func(i image.Image) error { return os.Remove(i.Kernel) },
		"no initramfs": func(i image.Image) error { return os.Remove(i.Initrd) },
		"no base":      func(i image.Image) error { return os.Remove(i.Base) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newStore(t, "init")
			i := ensure(t, s, p)
			if err := damage(i); err != nil {
				t.Fatal(err)
			}
			if err := i.Verify(t.Context()); !pack.Broken(err) || !strings.Contains(fault.AdviceOf(err), "pack build") {
				t.Errorf("Verify = %v (%s)", err, fault.AdviceOf(err))
			}
			if built := ensure(t, s, p); built.Digest != i.Digest {
				t.Errorf("built again it is %s, before %s", built.Digest, i.Digest)
			}
		})
	}
}

// withToolbox returns an image whose base with a toolbox has the given text.
func withToolbox(t testing.TB, s image.Store, p pack.Pack, text string) image.Image {
	t.Helper()
	i, err := s.EnsureToolbox(t.Context(), p, []string{"a recipe"}, nil, func(_ context.Context, _ image.Image, dir string) error {
		return os.WriteFile(filepath.Join(dir, "initfs.ext4"), []byte(text), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestWhatMayBeWholeStays checks that a toolbox, which takes long to build, is only removed
// if it is broken itself.
func TestWhatMayBeWholeStays(t *testing.T) {
	s, p := newStore(t, "init"), smallPack(t, "one")
	i := withToolbox(t, s, p, "one")
	stays := func(what string) {
		t.Helper()
		if got := string(read(t, i.Base)); got != "one" {
			t.Fatalf("%s: the base is %q", what, got)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if why, err := s.DiscardBroken(ended, i); why != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("DiscardBroken with an ended context = %v, %v", why, err)
	}
	stays("with an ended context")

	// An error that says nothing about the image, like too many open files.
	if err := errors.Join(os.Rename(i.Kernel, i.Kernel+".kept"), os.Symlink("vmlinux", i.Kernel)); err != nil {
		t.Fatal(err)
	}
	if why, err := s.DiscardBroken(t.Context(), i); why != nil || !errors.Is(err, syscall.ELOOP) || strings.Contains(fault.AdviceOf(err), "pack build") {
		t.Errorf("DiscardBroken of what cannot be opened = %v, %v (%s)", why, err, fault.AdviceOf(err))
	}
	stays("with a kernel that cannot be opened")
	if err := os.Rename(i.Kernel+".kept", i.Kernel); err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(t.Context()); err != nil {
		t.Error(err)
	}

	if err := os.Remove(i.Kernel); err != nil {
		t.Fatal(err)
	}
	if why, err := s.DiscardBroken(t.Context(), i); why == nil || err != nil {
		t.Errorf("DiscardBroken without a kernel = %v, %v", why, err)
	}
	stays("without a kernel")
	i = withToolbox(t, s, p, "another")
	if err := i.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	stays("with a new kernel")

	// Another program has built it again, with other bytes.
	if err := os.RemoveAll(filepath.Dir(i.Base)); err != nil {
		t.Fatal(err)
	}
	again := withToolbox(t, s, p, "two")
	if why, err := s.DiscardBroken(t.Context(), i); why == nil || err != nil {
		t.Errorf("DiscardBroken of what has been replaced = %v, %v", why, err)
	}
	if err := again.Verify(t.Context()); err != nil {
		t.Errorf("what replaced it: %v", err)
	}
}

func TestFlippedBitInAPack(t *testing.T) {
	for i := range 3 {
		p, s := smallPack(t, "one"), newStore(t, "init")
		file := p.Manifest.Files()[i]
		flip(t, p.Path(file))
		_, err := s.Ensure(t.Context(), p, nil)
		if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), p.Path(file)) || len(digests.FindAllString(err.Error(), -1)) != 2 {
			t.Errorf("with a bit of %s flipped, Ensure = %v", file.Name, err)
		}
		if left := folders(t, s.Dir); strings.Contains(left, ".new") {
			t.Errorf("a refused %s leaves %s", file.Name, left)
		}
	}
}
