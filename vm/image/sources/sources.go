// Package sources finds the pack that the settings name, and builds it if it is missing.
package sources

import (
	"context"
	"errors"
	"os"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
)

// Names that select how a pack is found or built.
const (
	Auto   = string(config.PackAuto) // Alpine, or Debian where Alpine's host cannot be reached at all
	Alpine = "alpine"                // the pinned release
	Debian = "debian"                // made from this host's package archives
)

// Sources finds packs in a store or builds them.
type Sources struct {
	Store  pack.Store
	Client *fetch.Client
	// Pinned is alpine.Pinned.
	Pinned func(vm.Arch) (alpine.Pins, error)
}

// New returns the sources with this program's pins. It stores packs in one folder and
// unfinished downloads in another.
func New(packs, downloads string) *Sources {
	return &Sources{Store: pack.Store{Dir: packs}, Client: &fetch.Client{Dir: downloads}, Pinned: alpine.Pinned}
}

// Choice is the pack that was found.
type Choice struct {
	Pack pack.Pack
	// Reason explains to people why it is not the preferred pack, or is empty.
	Reason string
}

// Get returns the pack that want selects: auto, alpine, debian, the name of a pack in the
// store, or a path. It uses folders in place and imports archives. It builds the Alpine or
// Debian pack if that is missing.
func (s *Sources) Get(ctx context.Context, want string, arch vm.Arch, report progress.Func) (Choice, error) {
	choice, err := s.get(ctx, want, arch, report)
	if err == nil && choice.Pack.Manifest.Arch != arch {
		return Choice{}, fault.Newf(fault.InvalidArgs, "use pack", want, "it is for %s, not for %s", choice.Pack.Manifest.Arch, arch).
			Advise("Choose another pack, or ask for its architecture with --arch.")
	}
	return choice, err
}

func (s *Sources) get(ctx context.Context, want string, arch vm.Arch, report progress.Func) (Choice, error) {
	var p pack.Pack
	var err error
	switch {
	case want == Auto:
		return s.auto(ctx, arch, report)
	case want == Alpine:
		p, err = s.alpine(ctx, arch, report)
	case want == Debian:
		p, err = s.debian(ctx, arch, report)
	case strings.ContainsAny(want, `/\`) || !pack.ValidName(want):
		p, err = s.bundle(ctx, want, report)
	default:
		p, err = s.Store.Get(want)
	}
	return Choice{Pack: p}, err
}

// auto prefers an existing pack, so that the guest stays the same.
func (s *Sources) auto(ctx context.Context, arch vm.Arch, report progress.Func) (Choice, error) {
	pins, err := s.Pinned(arch)
	if err != nil {
		return Choice{}, err
	}
	if p, err := s.Store.Get(pins.Name()); err == nil {
		return Choice{Pack: p}, nil
	}
	if p, ok := s.findDebian(arch); ok {
		return Choice{p, "the Debian pack is here already and the Alpine one is not; `osaurus-sandbox pack build alpine` makes that"}, nil
	}
	p, err := s.alpine(ctx, arch, report)
	if !fetch.Unreachable(err) {
		return Choice{Pack: p}, err
	}
	if cannot := debian.Available(arch); cannot != nil {
		return Choice{}, fault.New(fault.Unavailable, "make a pack for", string(arch), errors.Join(err, cannot)).
			Advise(strings.Join([]string{fault.AdviceOf(err), fault.AdviceOf(cannot)}, " Or: "))
	}
	const reason = "Debian, since Alpine's host cannot be reached"
	report.Note(reason)
	p, err = s.debian(ctx, arch, report)
	return Choice{p, reason}, err
}

func (s *Sources) alpine(ctx context.Context, arch vm.Arch, report progress.Func) (pack.Pack, error) {
	pins, err := s.Pinned(arch)
	if err != nil {
		return pack.Pack{}, err
	}
	p, err := s.build(ctx, pins.Name(), report, func(dir string) (pack.Manifest, error) { return alpine.Build(ctx, pins, s.Client, dir, report) })
	if err == nil {
		s.Client.Forget(pins.ISO)
		s.Client.Forget(pins.Root)
	}
	return p, err
}

func (s *Sources) debian(ctx context.Context, arch vm.Arch, report progress.Func) (pack.Pack, error) {
	if p, ok := s.findDebian(arch); ok {
		return p, nil
	}
	name, err := debian.Name(arch)
	if err != nil {
		return pack.Pack{}, err
	}
	return s.build(ctx, name, report, func(dir string) (pack.Manifest, error) { return debian.Build(ctx, arch, s.Client, dir, report) })
}

// build builds a pack if there is room for it.
func (s *Sources) build(ctx context.Context, name string, report progress.Func, fill func(dir string) (pack.Manifest, error)) (pack.Pack, error) {
	return s.Store.Build(ctx, name, report, func(ctx context.Context, dir string) (pack.Manifest, error) {
		if _, err := Room(dir); err != nil {
			return pack.Manifest{}, err
		}
		return fill(dir)
	})
}

// findDebian returns the last pack by name that uses apt: Debian or Ubuntu,
// built here or imported.
func (s *Sources) findDebian(arch vm.Arch) (found pack.Pack, ok bool) {
	packs, _ := s.Store.List() // broken packs count as missing
	for _, p := range packs {
		if p.Manifest.PackageTool == pack.APT && p.Manifest.Arch == arch {
			found, ok = p, true
		}
	}
	return found, ok
}

// bundle opens a folder, or imports an archive.
func (s *Sources) bundle(ctx context.Context, path string, report progress.Func) (pack.Pack, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return s.Store.Import(ctx, path, report)
	}
	return pack.Open(path)
}
