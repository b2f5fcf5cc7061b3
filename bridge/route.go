package bridge

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// route is a path with a handler for each method. A name follows a path that ends in a slash.
type route struct {
	path    string
	methods map[string]func(*call) error
}

func get(path string, f func(*call) error) route {
	return route{path, map[string]func(*call) error{http.MethodGet: f}}
}

func post(path string, f func(*call) error) route {
	return route{path, map[string]func(*call) error{http.MethodPost: f}}
}

// allRoutes lists the routes. It is a function because the handlers refer to it.
func allRoutes() []route {
	return []route{
		get(wire.PathSecrets, getSecret),
		{wire.PathConfig, map[string]func(*call) error{http.MethodGet: getConfig, http.MethodPost: setConfig}},
		post(wire.PathChat, chat),
		post(wire.PathDispatch, dispatchTask),
		post(wire.PathMemoryQuery, queryMemory),
		post(wire.PathMemoryStore, storeMemory),
		post(wire.PathEmit, emit),
		post(wire.PathPlugin, createPlugin),
		post(wire.PathLog, appendLine),
		post(wire.PathTool, callTool),
	}
}

// dispatch calls the handler for the request's path and method.
func (c *call) dispatch() error {
	r, name, err := findRoute(c.server.routes, c.r.URL)
	if err != nil {
		return err
	}
	do := r.methods[c.r.Method]
	if do == nil {
		c.w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(r.methods)), ", "))
		c.refuse(http.StatusMethodNotAllowed, fault.New(fault.InvalidArgs, "use method", brief(c.r.Method), nil).Advise("Use a method from the header Allow."))
		return nil
	}
	c.name = name
	return do(c)
}

// findRoute returns the route for a path and the name at the path's end.
func findRoute(all []route, u *url.URL) (found route, name string, err error) {
	const op = "find route"
	asked, err := segments(u)
	if err != nil {
		return route{}, "", err
	}
	for _, r := range all {
		path, named := strings.CutSuffix(r.path[1:], "/")
		fixed := strings.Split(path, "/")
		switch {
		case named && len(asked) == len(fixed)+1 && slices.Equal(asked[:len(fixed)], fixed):
			return r, asked[len(fixed)], nil
		case !slices.Equal(asked, fixed):
		case named:
			return route{}, "", fault.Newf(fault.InvalidArgs, op, brief(u.Path), "a name is missing").Advise("Write it after " + r.path)
		default:
			return r, "", nil
		}
	}
	if len(asked) > 1 && asked[0] == "api" && asked[1] == "inference" { // clients of other bridges try more than chat
		return route{}, "", fault.Newf(fault.InvalidArgs, op, brief(u.Path), "it can only chat").Advise("Ask for " + wire.PathChat + ".")
	}
	var paths []string
	for _, r := range all {
		paths = append(paths, r.path)
	}
	return route{}, "", fault.New(fault.NotFound, op, brief(u.Path), nil).Advise("The routes are " + strings.Join(paths, ", ") + ".")
}

// segments splits a path and decodes each part once. It drops empty parts; dots have no meaning.
func segments(u *url.URL) ([]string, error) {
	var parts []string
	for part := range strings.SplitSeq(u.EscapedPath(), "/") {
		if part == "" {
			continue
		}
		text, err := url.PathUnescape(part)
		if err != nil {
			return nil, fault.New(fault.InvalidArgs, "read path", brief(part), err)
		}
		parts = append(parts, text)
	}
	return parts, nil
}
