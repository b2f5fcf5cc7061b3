package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/sources"
)

func newPack() *cobra.Command {
	return noun("pack", newPackList(), newPackShow(), newPackBuild(), newPackVerify(), newPackExport(), newPackImport(), newPackRemove())
}

// packs returns the store of packs.
func packs() (pack.Store, error) {
	home, err := config.FindHome()
	return pack.Store{Dir: home.Packs()}, err
}

func newPackList() *cobra.Command {
	return command("list", func(ctx context.Context, c *call) error {
		store, err := packs()
		if err != nil {
			return err
		}
		// List the readable packs even if others are broken.
		list, broken := store.List()
		manifests := []pack.Manifest{}
		for _, p := range list {
			manifests = append(manifests, p.Manifest)
		}
		err = reply(c, map[string][]pack.Manifest{"packs": manifests}, nil, func(w io.Writer, _ map[string][]pack.Manifest) error {
			return printTable(w, "NAME\tDISTRIBUTION\tARCH\tSIZE\tDIGEST", list, func(p pack.Pack) []any {
				m := p.Manifest
				return []any{m.Name, m.Distribution + " " + m.Version, m.Arch, fmt.Sprintf("%.1f MB", megabytes(size(m))), fmt.Sprintf("%.16s", p.Digest())}
			})
		})
		return errors.Join(err, broken)
	})
}

func size(m pack.Manifest) (sum int64) {
	for _, f := range m.Files() {
		sum += f.Size
	}
	return sum
}

func newPackShow() *cobra.Command {
	return command("show PACK", func(ctx context.Context, c *call) error {
		p, err := openPack(c.args[0])
		if err != nil {
			return err
		}
		return printJSON(c.out, p.Manifest)
	}, alwaysJSON)
}

// openPack opens a local pack by name or folder.
func openPack(text string) (pack.Pack, error) {
	ref, err := packRef(text)
	if err != nil {
		return pack.Pack{}, err
	}
	if path, ok := ref.Path(); ok {
		return pack.Open(path)
	}
	store, err := packs()
	if err != nil {
		return pack.Pack{}, err
	}
	return store.Get(string(ref))
}

func newPackBuild() *cobra.Command {
	var arch string
	return command("build [PACK]", func(ctx context.Context, c *call) error {
		home, settings, err := loadSettings()
		if err != nil {
			return err
		}
		report := showProgress(c.err)
		p, err := choosePack(ctx, home, settings, c.arg(0), arch, report)
		if err != nil {
			return err
		}
		return replyPack(c, p, buildImage(ctx, toolboxBuilder(home, settings), p, report))
	}, archFlag(&arch))
}

func archFlag(to *string) option {
	*to = string(vm.HostArch())
	return withFlag(to, "arch", "processor architecture: amd64 or arm64")
}

func newPackVerify() *cobra.Command {
	return command("verify [PACK-OR-FILE...]", func(ctx context.Context, c *call) error {
		files, names := splitFiles(c.args)
		answer := verified{Whole: []string{}, Files: []alpine.Download{}}
		report := showProgress(c.err)
		var failed error
		for _, f := range files {
			d, err := alpine.Inspect(ctx, f, alpine.AllPinned(), report)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			answer.Files = append(answer.Files, d)
		}
		var chosen []pack.Pack
		if len(names) > 0 || len(files) == 0 {
			var err error
			chosen, err = choose(names)
			failed = errors.Join(failed, err)
		}
		for _, p := range chosen {
			if err := p.Verify(ctx, report); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			answer.Whole = append(answer.Whole, p.Manifest.Name)
		}
		return errors.Join(reply(c, answer, nil, printVerified), failed)
	})
}

// verified is the answer of pack verify.
type verified struct {
	Whole []string          `json:"whole"`
	Files []alpine.Download `json:"files"`
}

func printVerified(w io.Writer, v verified) error {
	for _, d := range v.Files {
		holds := "the root file system of Alpine " + d.Release
		if d.Modules > 0 {
			holds = fmt.Sprintf("kernel %s and %d modules", d.Kernel, d.Modules)
		}
		writef(w, "%s is %s: %s for %s\n", d.File, d.Pinned, holds, d.Arch)
	}
	for _, name := range v.Whole {
		writef(w, "%s is whole\n", name)
	}
	return nil
}

// splitFiles separates regular files from names and folders of packs.
func splitFiles(args []string) (files, names []string) {
	for _, arg := range args {
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			files = append(files, arg)
		} else {
			names = append(names, arg)
		}
	}
	return files, names
}

func choose(args []string) ([]pack.Pack, error) {
	if len(args) == 0 {
		store, err := packs()
		if err != nil {
			return nil, err
		}
		return store.List()
	}
	var chosen []pack.Pack
	for _, arg := range args {
		p, err := openPack(arg)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func newPackExport() *cobra.Command {
	return command("export PACK FILE", func(ctx context.Context, c *call) error {
		p, err := openPack(c.args[0])
		if err != nil {
			return err
		}
		err = pack.Export(ctx, p, c.args[1], showProgress(c.err))
		return reply(c, map[string]string{"pack": p.Manifest.Name, "file": c.args[1]}, err, nil)
	})
}

// replyPack prints the name of a new pack.
func replyPack(c *call, p pack.Pack, err error) error {
	return reply(c, map[string]string{"pack": p.Manifest.Name}, err, func(w io.Writer, _ map[string]string) error {
		return writef(w, "%s\n", p.Manifest.Name)
	})
}

func newPackImport() *cobra.Command {
	return command("import FILE", func(ctx context.Context, c *call) error {
		store, err := packs()
		if err != nil {
			return err
		}
		p, err := store.Import(ctx, c.args[0], showProgress(c.err))
		return replyPack(c, p, err)
	})
}

func newPackRemove() *cobra.Command {
	return command("remove PACK...", func(ctx context.Context, c *call) error {
		store, err := packs()
		if err != nil {
			return err
		}
		removed := []string{}
		for _, name := range c.args {
			if failed := store.Remove(ctx, name); failed != nil {
				err = errors.Join(err, failed)
			} else {
				removed = append(removed, name)
			}
		}
		return errors.Join(reply(c, map[string][]string{"removed": removed}, nil, nil), err)
	})
}

// choosePack returns the pack named by text or, if that is empty, by the settings. It builds the
// pack if needed.
func choosePack(ctx context.Context, home config.Home, s config.Settings, text, arch string, report progress.Func) (pack.Pack, error) {
	ref := s.Pack
	if text != "" {
		var err error
		if ref, err = packRef(text); err != nil {
			return pack.Pack{}, err
		}
	}
	choice, err := sources.New(home.Packs(), home.Downloads()).Get(ctx, string(ref), vm.Arch(arch), report)
	return choice.Pack, err
}

// toolboxBuilder returns a builder of images with the toolbox of the settings.
func toolboxBuilder(home config.Home, s config.Settings) boot.ToolboxBuilder {
	return boot.NewToolboxBuilder(home, s, driver(), image.Store{Dir: home.Images(), Programs: embedded.Programs[vm.Arch]})
}

// findImage returns the pack's current image, building it if there is none. It warns about what
// the guest will lack.
func findImage(ctx context.Context, b boot.ToolboxBuilder, p pack.Pack, report progress.Func) (image.Image, error) {
	i, missing, err := b.Find(ctx, p, report)
	if err == nil && len(missing) > 0 {
		report.Note("not installed in " + p.Manifest.Name + ": " + strings.Join(missing, " ") + " (`osaurus-sandbox pack build` adds them)")
	}
	return i, err
}

// buildImage builds a pack's image, with the toolbox if the network allows.
func buildImage(ctx context.Context, b boot.ToolboxBuilder, p pack.Pack, report progress.Func) error {
	bare := b
	bare.Packages = nil // the image with the toolbox is made from the bare one
	if _, _, err := bare.Repair(ctx, p, report); err != nil {
		return err
	}
	_, missing, err := b.Repair(ctx, p, report)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = b.Build(ctx, p, report)
	if fault.KindOf(err) == fault.Unavailable {
		report.Note("not installed: " + strings.Join(missing, " ") + ": " + err.Error() + "\n" + fault.AdviceOf(err))
		return nil
	}
	return err
}
