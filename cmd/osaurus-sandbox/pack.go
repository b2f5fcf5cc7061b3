package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/sources"
)

func newPack(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Make and keep what guests are made of",
		Long: `A pack is a kernel, its modules and a root file system, each with its size and digest.

It is built from Alpine's releases (alpine) or with this computer's package manager (debian), or imported from a file that another
computer exported.`,
		Example: `  osaurus-sandbox pack list
  osaurus-sandbox pack build debian
  osaurus-sandbox pack verify`,
	}
	cmd.AddCommand(newPackList(), newPackShow(), newPackBuild(c), newPackVerify(c), newPackExport(c), newPackImport(c), newPackRemove())
	return cmd
}

// packs returns the store of packs.
func packs() (pack.Store, error) {
	home, err := config.FindHome()
	return pack.Store{Dir: home.Packs()}, err
}

func newPackList() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List the packs that are here",
		Example: `  osaurus-sandbox pack list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			err = reply(cmd, map[string][]pack.Manifest{"packs": manifests}, nil, func(w io.Writer, _ map[string][]pack.Manifest) error {
				return printTable(w, "NAME\tDISTRIBUTION\tARCH\tSIZE\tDIGEST", list, func(p pack.Pack) []any {
					m := p.Manifest
					return []any{m.Name, m.Distribution + " " + m.Version, m.Arch, fmt.Sprintf("%.1f MB", megabytes(size(m))), fmt.Sprintf("%.16s", p.Digest())}
				})
			})
			return errors.Join(err, broken)
		},
	})
}

func size(m pack.Manifest) (sum int64) {
	for _, f := range m.Files() {
		sum += f.Size
	}
	return sum
}

func newPackShow() *cobra.Command {
	return alwaysJSON(&cobra.Command{
		Use:     "show PACK",
		Short:   "Print a pack's manifest",
		Example: `  osaurus-sandbox pack show debian-12-amd64`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := openPack(args[0])
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), p.Manifest)
		},
	})
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

func newPackBuild(c console) *cobra.Command {
	var arch string
	cmd := &cobra.Command{
		Use:   "build [PACK]",
		Short: "Build a pack and its image, unless they are here already",
		Long: `Builds a pack and the image that is booted from it, and prints the pack's name. PACK is one of these, or the name or path of a pack
that is here, of which only the image is built. The default is the setting "pack".

  alpine  from a release of Alpine; every download is checked against a digest in this program
  debian  from this computer's package archives, with its package manager and the signatures that it trusts
  auto    alpine, or debian if Alpine's server cannot be reached at all

Alpine comes without tools: those in the setting "toolbox" are installed in a VM, from the setting "mirrors". Without a network that
is done later. Where the pack of alpine or debian lacks a file, or has one of the wrong size, it is made again. An image that has
changed since it was built, or lacks a file, is built again.`,
		Example: `  osaurus-sandbox pack build
  osaurus-sandbox pack build debian`,
		RunE: func(cmd *cobra.Command, args []string) error {
			home, settings, err := loadSettings()
			if err != nil {
				return err
			}
			report := showProgress(c.err)
			p, err := choosePack(cmd.Context(), home, settings, append(args, "")[0], arch, report)
			if err != nil {
				return err
			}
			return replyPack(cmd, p, buildImage(cmd.Context(), baker(home, settings), p, report))
		},
	}
	archFlag(cmd, &arch)
	return withJSON(cmd)
}

func archFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "arch", string(vm.HostArch()), "processor architecture: amd64 or arm64")
}

func newPackVerify(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "verify [PACK...]",
		Short: "Check every byte of packs against their manifests",
		Long:  "Checks every byte of the packs that are named, or of all, against the digests in their manifests.",
		Example: `  osaurus-sandbox pack verify
  osaurus-sandbox pack verify debian-12-amd64`,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := choose(args)
			report := showProgress(c.err)
			whole := []string{}
			for _, p := range chosen {
				if bad := p.Verify(cmd.Context(), report); bad != nil {
					err = errors.Join(err, bad)
					continue
				}
				whole = append(whole, p.Manifest.Name)
			}
			return errors.Join(reply(cmd, map[string][]string{"whole": whole}, nil, func(w io.Writer, _ map[string][]string) error {
				for _, name := range whole {
					writef(w, "%s is whole\n", name)
				}
				return nil
			}), err)
		},
	})
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

func newPackExport(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "export PACK FILE",
		Short:   "Write a pack into one file, for a computer without a network",
		Example: "  osaurus-sandbox pack export debian-12-amd64 debian.tar.zst",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := openPack(args[0])
			if err != nil {
				return err
			}
			err = pack.Export(cmd.Context(), p, args[1], showProgress(c.err))
			return reply(cmd, map[string]string{"pack": p.Manifest.Name, "file": args[1]}, err, nil)
		},
	})
}

// replyPack prints the name of a new pack.
func replyPack(cmd *cobra.Command, p pack.Pack, err error) error {
	return reply(cmd, map[string]string{"pack": p.Manifest.Name}, err, func(w io.Writer, _ map[string]string) error {
		return writef(w, "%s\n", p.Manifest.Name)
	})
}

func newPackImport(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "import FILE",
		Short: "Add a pack from a file or folder, after checking every byte",
		Long: `Adds a pack from a file that pack export wrote, or from a folder, after checking every byte. One that is
here already stays as it is; one that lacks a file, or has one of the wrong size, is replaced unless it had other content.`,
		Example: `  osaurus-sandbox pack import debian.tar.zst`,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := packs()
			if err != nil {
				return err
			}
			p, err := store.Import(cmd.Context(), args[0], showProgress(c.err))
			return replyPack(cmd, p, err)
		},
	})
}

func newPackRemove() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "remove PACK...",
		Short:   "Delete packs",
		Long:    "Deletes packs, also broken ones. Images that were built from them stay, and boot without them.",
		Example: `  osaurus-sandbox pack remove debian-12-amd64`,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := packs()
			if err != nil {
				return err
			}
			removed := []string{}
			for _, name := range args {
				if failed := store.Remove(cmd.Context(), name); failed != nil {
					err = errors.Join(err, failed)
				} else {
					removed = append(removed, name)
				}
			}
			return errors.Join(reply(cmd, map[string][]string{"removed": removed}, nil, nil), err)
		},
	})
}

// packSources returns the sources of packs.
func packSources(home config.Home) *sources.Sources {
	return sources.New(home.Packs(), home.Downloads())
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
	choice, err := packSources(home).Get(ctx, string(ref), vm.Arch(arch), report)
	return choice.Pack, err
}

// baker returns a builder of images with the toolbox of the settings.
func baker(home config.Home, s config.Settings) boot.ToolboxBuilder {
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
	// The image with the toolbox is made from the bare one.
	bare := func() (image.Image, error) { return b.Images.Ensure(ctx, p, report) }
	if err := repairImage(ctx, b.Images, report, bare); err != nil {
		return err
	}
	var missing []string
	best := func() (i image.Image, err error) {
		i, missing, err = b.Find(ctx, p, report)
		return i, err
	}
	if err := repairImage(ctx, b.Images, report, best); err != nil || len(missing) == 0 {
		return err
	}
	_, err := b.Build(ctx, p, report)
	if fault.KindOf(err) == fault.Unavailable {
		report.Note("not installed: " + strings.Join(missing, " ") + ": " + err.Error() + "\n" + fault.AdviceOf(err))
		return nil
	}
	return err
}

// repairImage rebuilds an image that was damaged or lacks a file.
func repairImage(ctx context.Context, store image.Store, report progress.Func, find func() (image.Image, error)) error {
	i, err := find()
	if err != nil {
		return err
	}
	broken, err := store.DiscardBroken(ctx, i)
	if err != nil || broken == nil {
		return err
	}
	report.Note(broken.Error() + "; it is built again")
	_, err = find()
	return err
}
