package install

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/plugins"
)

const (
	// maxPlugins bounds the plugins of an agent. No model can use the tools of so many.
	maxPlugins = 250
	// maxRecords bounds the file of records in bytes. It is written at each step of an installation.
	maxRecords = 64 << 20
)

// Record describes an agent's plugin in the file of installed plugins.
type Record struct {
	Plugin      plugins.Recipe `json:"plugin"`
	Agent       config.AgentID `json:"agentId"`
	InstalledAt time.Time      `json:"installedAt"`
	Status      Status         `json:"status"`
	// Hash is the recipe's. If the library has another one, there is an update.
	Hash plugins.Hash `json:"sourceContentHash"`

	Disabled bool `json:"disabled,omitempty"`
	// Without lists declared secrets that have no value.
	Without []config.SecretName `json:"withoutSecrets,omitempty"`
	// Packages are the dependencies that were found after their installation.
	Packages []string `json:"packages,omitempty"`
	// Layer names the layer of the agent's room in which setup ran.
	Layer string `json:"layer,omitempty"`
	// Failure is why the plugin is damaged, or why its last change failed.
	Failure *Failure `json:"failure,omitempty"`
	// Doing is the change in progress, or the one that a crash interrupted.
	Doing *Doing `json:"doing,omitempty"`

	ID config.PluginID `json:"-"` // of Plugin
}

// Status is the status of a plugin.
type Status string

const (
	Installing   Status = "installing"
	Ready        Status = "ready"
	Broken       Status = "failed"
	Uninstalling Status = "uninstalling"
)

// Step is a step of an installation or removal.
type Step string

// The steps of an installation in order, then that of a removal.
const (
	Validate     Step = "validate"
	Machine      Step = "machine"
	User         Step = "user"
	Dependencies Step = "dependencies"
	Files        Step = "files"
	Credentials  Step = "secrets"
	Setup        Step = "setup"
	Tools        Step = "tools"

	Remove Step = "remove"
)

// Steps returns the steps of an installation.
func Steps() []Step {
	return []Step{Validate, Machine, User, Dependencies, Files, Credentials, Setup, Tools}
}

// Failure describes a failed step.
type Failure struct {
	Step    Step       `json:"step"`
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
	Advice  string     `json:"advice,omitempty"`
	Time    time.Time  `json:"time"`
	// Version is the version of the recipe that was being installed.
	Version string `json:"version,omitempty"`
}

// Doing is a change in progress.
type Doing struct {
	Step Step `json:"step"`
	// Before is the previous record, to undo the change.
	Before *Record `json:"before,omitempty"`
}

// present returns the previous record while an installation is in progress, and r otherwise.
func (r Record) present() Record {
	if r.Status == Installing && r.Doing != nil && r.Doing.Before != nil {
		return *r.Doing.Before
	}
	return r
}

// callable reports whether the plugin's tools can be called.
func (r Record) callable() bool { return r.Status == Ready && !r.Disabled }

// records are the plugins of an agent. They are immutable.
type records struct {
	list map[config.PluginID]Record
	// unread are records that this program cannot parse. It keeps them unchanged.
	unread []json.RawMessage
}

// load reads the file of an agent's plugins. If there is no file, there are no plugins.
func load(path string) (records, error) {
	const op = "read installed plugins"
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return records{}, nil
	}
	if err != nil {
		return records{}, fault.New(fault.Unavailable, op, path, err).Advise("Check that it is a file that you can read.")
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return records{}, fault.New(fault.Unavailable, op, path, err).Advise("Repair it, or move it away and install the agent's plugins again.")
	}
	s := records{list: map[config.PluginID]Record{}}
	for _, m := range raw {
		r, err := readRecord(m)
		if _, there := s.list[r.ID]; err != nil || there {
			s.unread = append(s.unread, m)
			continue
		}
		s.list[r.ID] = r
	}
	return s, nil
}

func readRecord(text []byte) (r Record, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, err
	}
	for at := &r; ; at = at.Doing.Before {
		if at.ID, err = at.Plugin.ID(); err != nil || at.Doing == nil || at.Doing.Before == nil {
			return r, err
		}
	}
}

// sorted returns the records that could be parsed, by id.
func (s records) sorted() []Record {
	return slices.SortedFunc(maps.Values(s.list), func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
}

// with returns the records with the plugin's record replaced, or removed if r is nil.
func (s records) with(plugin config.PluginID, r *Record) (records, error) {
	next := records{list: map[config.PluginID]Record{}, unread: s.unread}
	maps.Copy(next.list, s.list)
	if delete(next.list, plugin); r == nil {
		return next, nil
	}
	if len(next.list) >= maxPlugins {
		return s, fault.Newf(fault.Rejected, "install plugin", string(plugin), "the agent already has %d", maxPlugins).Advise("Uninstall one that it does not need.")
	}
	next.list[plugin] = *r
	return next, nil
}

// save writes the file of an agent's plugins.
func (s records) save(path string) error {
	const op = "save installed plugins"
	all := make([]any, 0, len(s.list)+len(s.unread))
	for _, r := range s.sorted() {
		all = append(all, r)
	}
	for _, m := range s.unread {
		all = append(all, m)
	}
	text, err := printable.Document(all)
	if err != nil {
		return fault.New(fault.Execution, op, path, err)
	}
	if len(text) > maxRecords {
		return fault.Newf(fault.Rejected, op, path, "the agent's plugins would have more than %d MiB", maxRecords>>20).Advise("Uninstall one that it does not need.")
	}
	return config.WriteFile(path, text)
}
