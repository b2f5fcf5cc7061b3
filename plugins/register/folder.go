package register

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

// manifest is the recipe in a plugin's folder.
const manifest = "plugin.json"

// Pack reads the plugin that an agent has written into ~/plugins/ID. All text files beside
// plugin.json become files of the recipe, unless plugin.json contains one of the same name.
func (g *Registrar) Pack(ctx context.Context, a tools.Agent, id config.PluginID) (plugins.Recipe, error) {
	p := &packer{room: g.Room(a), home: a.Home, root: "plugins/" + string(id), texts: map[plugins.FilePath]string{}}
	text, err := p.read(ctx, manifest, plugins.MaxRecipe)
	if fault.KindOf(err) == fault.NotFound {
		return plugins.Recipe{}, fault.Newf(fault.Execution, op, "~/"+p.root+"/"+manifest, "there is no such file").
			Advise("Write it first: name, description and tools, each with an id, a description and a command to run.")
	}
	if err != nil {
		return plugins.Recipe{}, err
	}
	r, err := plugins.Parse(text)
	if err != nil {
		return plugins.Recipe{}, err
	}
	if own, err := r.ID(); err != nil || own != id {
		return plugins.Recipe{}, fault.Newf(fault.InvalidArgs, op, string(id), "its %s has the name %q, whose folder is plugins/%s", manifest, r.Name, own).
			Advise("Move the folder, or change the name.")
	}
	if err := p.walk(ctx, "."); err != nil {
		return plugins.Recipe{}, err
	}
	maps.Copy(p.texts, r.Files)
	r.Files = p.texts
	return r, plugins.Refusal(plugins.Validate(r))
}

// packer reads one folder.
type packer struct {
	room       engine.Files
	home, root string // root is below home
	texts      map[plugins.FilePath]string
	total      int // bytes read
}

func (p *packer) file(name string) engine.File {
	return engine.File{Root: p.home, Path: path.Join(p.root, name)}
}

// walk reads the files in a folder and its subfolders, except hidden ones.
func (p *packer) walk(ctx context.Context, dir string) error {
	entries, more, err := p.room.ListFolder(ctx, p.file(dir), engine.MaxFolderEntries)
	switch {
	case err != nil:
		return err
	case more:
		return p.refuse(dir, fmt.Sprintf("has more than %d files", engine.MaxFolderEntries))
	case strings.Count(dir, "/") >= plugins.MaxPathDepth:
		return p.refuse(dir, "is too deep")
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case strings.HasPrefix(e.Name, ".") || name == manifest:
		case e.Kind == engine.Folder:
			err = p.walk(ctx, name)
		case e.Kind != engine.RegularFile:
			err = p.refuse(name, "is a link or a device")
		case len(p.texts) == plugins.MaxFiles:
			err = p.refuse(p.root, fmt.Sprintf("has more than %d files", plugins.MaxFiles))
		default:
			err = p.add(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add reads a text file.
func (p *packer) add(ctx context.Context, name string) error {
	b, err := p.read(ctx, name, plugins.MaxFile)
	if err != nil {
		return err
	}
	if p.total += len(b); p.total > plugins.MaxFilesTotal {
		return p.refuse(p.root, fmt.Sprintf("has more than %d bytes", plugins.MaxFilesTotal))
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return fault.New(fault.InvalidArgs, op, "~/"+p.root, errors.New("not texts in UTF-8: "+name)).Advise("Remove them from the folder; setup can make or fetch them.")
	}
	p.texts[plugins.FilePath(name)] = string(b)
	return nil
}

func (p *packer) refuse(name, why string) error {
	return fault.New(fault.InvalidArgs, op, name, errors.New("it "+why)).Advise("A plugin's folder holds source texts. Have setup make or download large and binary files.")
}

// read reads a file of at most that many bytes.
func (p *packer) read(ctx context.Context, name string, most int) ([]byte, error) {
	var b bytes.Buffer
	_, err := p.room.ReadFile(ctx, p.file(name), engine.FilePart{Limit: uint64(most) + 1}, &b)
	if err == nil && b.Len() > most {
		err = p.refuse(name, fmt.Sprintf("has more than %d bytes", most))
	}
	return b.Bytes(), err
}
