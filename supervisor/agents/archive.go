package agents

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/machine"
)

const (
	archiveFormat = 1
	// maxCard bounds the card: settings with thousands of network rules.
	maxCard = 1 << 20
	// maxWindow bounds the memory for decompression. Export needs less.
	maxWindow = 32 << 20
	// archived is the key of the home in a history that has nothing else.
	archived = "home"
)

// card begins an exported agent: a line of JSON. The rest is what History.Pack writes of its home, and what
// engine.Snapshots exports of its room. All of it is compressed by zstd.
type card struct {
	Format   int                  `json:"format"`
	Name     config.AgentName     `json:"name"`
	Settings config.AgentSettings `json:"settings"`
	Home     history.Digest       `json:"home"`
	Base     string               `json:"base"` // that the room needs
}

// Export writes an agent as an archive for Import: settings, home folder, and what it has changed outside of
// that. Programs may write meanwhile: each file is as it was when it was read.
func (a *Agents) Export(ctx context.Context, ref string, to io.Writer) error {
	return a.Room(ref).Snapshots(ctx, func(_ *machine.Lease, rooms engine.Snapshots, agent Agent) error {
		return a.export(ctx, rooms, agent, to)
	})
}

func (a *Agents) export(ctx context.Context, rooms engine.Snapshots, agent Agent, to io.Writer) error {
	home, err := a.OpenHome(agent)
	if err != nil {
		return err
	}
	defer home.Close()
	err = a.transfer(1, func(store *history.History) error {
		made, err := store.Checkpoint(ctx, archived, home)
		if err != nil {
			return err
		}
		packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if err = json.NewEncoder(packed).Encode(card{archiveFormat, agent.Name, agent.Settings, made.Tree, boot.BaseOf(a.Home)}); err == nil {
			err = store.Pack(ctx, made.Tree, packed)
		}
		if err == nil {
			err = rooms.ExportRoom(ctx, agent.User, packed)
		}
		if err == nil { // otherwise an archive that is cut off could be imported
			err = packed.Close()
		}
		return err
	})
	if err != nil {
		return fault.New(fault.KindOf(err), "export agent", string(agent.Name), err).Advise("The archive is incomplete. Check that the disk has space for another copy of the home folder.")
	}
	return nil
}

// Import says how an agent is imported.
type Import struct {
	Name      string // or empty, for that of the archive
	Settings  bool   // take its settings from the archive; otherwise they are those of a new agent
	OtherBase bool   // leave out what it changed outside of its home if that needs another base
}

// Import makes a new agent from an archive. Anybody may have made it, so nothing in it is trusted. The
// agent appears complete or not at all. It has an id, a uid and tokens of its own, and no secrets.
func (a *Agents) Import(ctx context.Context, how Import, from io.Reader, by machine.Cause) (made Agent, err error) {
	l, err := a.Machines.Shared().Acquire(ctx)
	if err != nil {
		return Agent{}, err
	}
	defer l.Release()
	rooms, err := snapshotsOf(l)
	if err != nil {
		return Agent{}, err
	}
	packed, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return Agent{}, err
	}
	defer packed.Close()
	unpacked := bufio.NewReaderSize(packed, maxCard)
	c, err := readCard(unpacked)
	base := boot.BaseOf(a.Home)
	if err == nil && c.Base != base && !how.OtherBase {
		err = fault.Newf(fault.Rejected, "import room", "", "it was exported with another pack or toolbox, whose base is %.19q instead of %.19q", c.Base, base).
			Advise("Set that pack, or use --other-pack: what the agent had installed is left out then.")
	}
	if err == nil {
		err = a.transfer(2, func(store *history.History) error { // the store and the home
			if err := store.Unpack(ctx, c.Home, unpacked); err != nil {
				return err
			}
			if !how.Settings {
				c.Settings = config.AgentDefaults()
			}
			made, err = a.createFilled(ctx, New{Name: cmp.Or(how.Name, string(c.Name))}, c.Settings, func(to Agent) error {
				home, err := a.OpenHome(to)
				if err != nil {
					return err
				}
				defer home.Close()
				if _, err = store.Restore(ctx, archived, home, c.Home, nil, nil); err != nil || c.Base != base {
					return err
				}
				if err := a.clearNow(ctx, l, to.User); err != nil { // of an earlier agent of the name
					return err
				}
				return rooms.ImportRoom(ctx, engine.RoomConfig{User: to.User, UID: to.UID, Limits: to.limits()}, unpacked)
			}, by)
			return err
		})
	}
	if err != nil {
		return Agent{}, fault.New(fault.KindOf(err), "import agent", how.Name, err).Advise(cmp.Or(fault.AdviceOf(err), "Nothing was imported. Check the archive, and that the disk has space."))
	}
	return made, nil
}

func readCard(from *bufio.Reader) (c card, err error) {
	text, err := from.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil && c.Format != archiveFormat {
		err = fmt.Errorf("it has format %d, but this program knows %d", c.Format, archiveFormat)
	}
	if err != nil {
		err = fault.New(fault.Rejected, "read archive", "", err).Advise("It is damaged, or was not made by agent export of this release.")
	}
	return c, err
}

// transfer calls do with an empty history, which may take a part of the free space, and then removes it.
// The history of agents would not do: it has limits and leaves out large files.
func (a *Agents) transfer(part int64, do func(*history.History) error) error {
	dir, err := a.Home.Make(a.Home.Transfers())
	if err != nil {
		return err
	}
	free, err := clone.Free(dir)
	if err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, ""); err != nil {
		return err
	}
	store, err := history.Open(dir, history.Options{MaxBytes: max(1, (free-boot.MinFree)/part), Caches: history.DefaultCaches()})
	if err == nil {
		err = do(store)
	}
	return errors.Join(err, os.RemoveAll(dir))
}
