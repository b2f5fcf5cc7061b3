package register

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

const (
	// manifest is the recipe in a plugin's folder.
	manifest = "plugin.json"
	// maxNamed bounds how many files an error names.
	maxNamed = 10
)

// Pack reads the plugin that an agent has written into ~/plugins/ID. All text files beside
// plugin.json become files of the recipe, unless plugin.json contains one of the same name.
func (g *Registrar) Pack(ctx context.Context, a tools.Agent, id config.PluginID) (plugins.Recipe, error) {
	p := &packer{files: g.Room(a), agent: a, root: "plugins/" + string(id)}
	text, err := p.read(ctx, manifest, plugins.MaxRecipe)
	if err != nil {
		return plugins.Recipe{}, p.noManifest(err)
	}
	r, err := Read(text)
	if err != nil {
		return plugins.Recipe{}, err
	}
	if own, err := r.ID(); err != nil || own != id {
		return plugins.Recipe{}, fault.Newf(fault.InvalidArgs, op, string(id), "its %s has the name %q, whose folder is plugins/%s", manifest, r.Name, own).
			Advise("Move the folder, or change the name.")
	}
	if err := p.walk(ctx, ".", 0); err != nil {
		return plugins.Recipe{}, err
	}
	files := map[plugins.FilePath]string{}
	for _, name := range p.found {
		at := plugins.FilePath(name)
		if _, there := r.Files[at]; there {
			continue
		}
		if files[at], err = p.text(ctx, name); err != nil {
			return plugins.Recipe{}, err
		}
	}
	if err := p.refusal(); err != nil {
		return plugins.Recipe{}, err
	}
	for at, text := range r.Files {
		files[at] = text
	}
	if len(files) > 0 {
		r.Files = files
	}
	return r, plugins.Refusal(plugins.Validate(r))
}

// packer reads one folder.
type packer struct {
	files engine.Files
	agent tools.Agent
	root  string // below the home

	found  []string // files below the root, sorted
	total  int      // bytes read
	binary []string // files that are not text
}

func (p *packer) file(name string) engine.File {
	return engine.File{Root: p.agent.Home, Path: path.Join(p.root, name)}
}

// noManifest returns the error for a folder without a recipe.
func (p *packer) noManifest(err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	return fault.Newf(fault.Execution, op, "~/"+p.root+"/"+manifest, "there is no such file").
		Advise("Write it first: name, description and tools, each with an id, a description and a command to run.")
}

// walk finds the files in a folder and its subfolders, except hidden ones.
func (p *packer) walk(ctx context.Context, dir string, depth int) error {
	if depth >= plugins.MaxPathDepth {
		return p.tooMuch(dir, "is too deep")
	}
	entries, more, err := p.files.ListFolder(ctx, p.file(dir), engine.MaxFolderEntries)
	if err != nil {
		return err
	}
	if more {
		return p.tooMuch(dir, fmt.Sprintf("has more than %d files", engine.MaxFolderEntries))
	}
	slices.SortFunc(entries, func(a, b engine.FolderEntry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case strings.HasPrefix(e.Name, ".") || name == manifest:
		case e.Kind == engine.Folder:
			if err := p.walk(ctx, name, depth+1); err != nil {
				return err
			}
		case e.Kind != engine.RegularFile:
			return p.tooMuch(name, "is no file of its own but a link or a device")
		case e.Size > plugins.MaxFile:
			return p.tooMuch(name, fmt.Sprintf("has %d bytes, more than %d", e.Size, plugins.MaxFile))
		case len(p.found) == plugins.MaxFiles:
			return p.tooMuch(p.root, fmt.Sprintf("has more than %d files", plugins.MaxFiles))
		default:
			p.found = append(p.found, name)
		}
	}
	return nil
}

func (p *packer) tooMuch(name, why string) error {
	return fault.New(fault.InvalidArgs, op, name, errors.New("it "+why)).Advise("A plugin's folder holds its source texts. Keep what is big or built elsewhere, and have setup make it.")
}

// text reads a text file. It adds other files to p.binary.
func (p *packer) text(ctx context.Context, name string) (string, error) {
	b, err := p.read(ctx, name, plugins.MaxFile)
	if err != nil {
		return "", err
	}
	if p.total += len(b); p.total > plugins.MaxFilesTotal {
		return "", p.tooMuch(p.root, fmt.Sprintf("has more than %d bytes", plugins.MaxFilesTotal))
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		p.binary = append(p.binary, name)
		return "", nil
	}
	return string(b), nil
}

func (p *packer) refusal() error {
	if len(p.binary) == 0 {
		return nil
	}
	shown := list(p.binary[:min(len(p.binary), maxNamed)])
	if more := len(p.binary) - maxNamed; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return fault.New(fault.InvalidArgs, op, "~/"+p.root, errors.New("not texts in UTF-8: "+shown)).Advise("Remove them from the folder; setup can make or fetch them.")
}

// read reads a file of at most that many bytes.
func (p *packer) read(ctx context.Context, name string, most int) ([]byte, error) {
	var b bytes.Buffer
	_, err := p.files.ReadFile(ctx, p.file(name), engine.FilePart{Limit: uint64(most) + 1}, &b)
	if err == nil && b.Len() > most {
		err = p.tooMuch(name, fmt.Sprintf("has more than %d bytes", most))
	}
	return b.Bytes(), err
}
