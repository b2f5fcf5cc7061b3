package main

import (
	"fmt"
	"go/token"
	"go/types"
)

// standInTarget and standInEnv describe how the stand-in is built.
var standInTarget = target{"linux", "amd64", false}

func standInEnv() []string { return []string{"GOWORK=" + abs(standInWork)} }

// checkStandIn compares the stand-in with the real module.
func checkStandIn(t target) (found []string, summary string, err error) {
	real, err := load(t, nil, standInModule)
	if err != nil {
		return nil, "", err
	}
	standIn, err := load(standInTarget, standInEnv(), standInModule)
	if err != nil {
		return nil, "", err
	}
	c := compare(real, standIn)
	return c.found, fmt.Sprintf("%d exported things compared", c.compared), nil
}

// load type-checks the declarations of a package.
func load(t target, env []string, path string) (*types.Package, error) {
	pkgs, err := list(t, false, env, path)
	if err != nil {
		return nil, err
	}
	u := newUniverse(t, pkgs)
	u.declare()
	n := u.nodes[path]
	if n == nil || n.pkg == nil {
		return nil, fmt.Errorf("there is no package %s", path)
	}
	return n.pkg, nil
}

// comparison finds differences between the stand-in and the real module. The
// stand-in may lack anything: code that uses it then does not compile.
type comparison struct {
	real, standIn *types.Package
	found         []string
	compared      int
}

func (c *comparison) differ(format string, args ...any) {
	c.found = append(c.found, "stand-in: "+fmt.Sprintf(format, args...))
}

// same compares two descriptions of the same thing.
func (c *comparison) same(what string, standIn, real any) {
	c.compared++
	if s, r := fmt.Sprint(standIn), fmt.Sprint(real); s != r {
		c.differ("%s is %s, and really %s", what, s, r)
	}
}

func compare(real, standIn *types.Package) *comparison {
	c := &comparison{real: real, standIn: standIn}
	c.all()
	c.implementations()
	return c
}

func (c *comparison) all() {
	for _, name := range c.standIn.Scope().Names() {
		ours := c.standIn.Scope().Lookup(name)
		if !ours.Exported() {
			continue
		}
		theirs := c.real.Scope().Lookup(name)
		if theirs == nil {
			c.differ("%s is not in the real module", name)
			continue
		}
		switch ours := ours.(type) {
		case *types.TypeName:
			if theirs, ok := theirs.(*types.TypeName); ok {
				c.types(name, ours.Type(), theirs.Type())
				continue
			}
		case *types.Const:
			if theirs, ok := theirs.(*types.Const); ok {
				c.same(name, ours.Val().ExactString(), theirs.Val().ExactString())
			}
		}
		c.same(name, fmt.Sprintf("%T %s", ours, describe(ours.Type())), fmt.Sprintf("%T %s", theirs, describe(theirs.Type())))
	}
}

// types compares the kind, fields and methods of two types.
func (c *comparison) types(name string, ours, theirs types.Type) {
	switch under := ours.Underlying().(type) {
	case *types.Struct:
		c.same(name, "a struct", kind(theirs))
		for f := range under.Fields() {
			if f.Exported() && !f.Embedded() {
				c.same(name+"."+f.Name(), describe(f.Type()), c.member(theirs, f.Name()))
			}
		}
	case *types.Interface:
		c.same(name, "an interface", kind(theirs))
		if real, ok := theirs.Underlying().(*types.Interface); ok {
			// An unexported method keeps other packages' types out.
			c.same(name+"'s being closed to others", closed(under), closed(real))
		}
		for m := range under.Methods() {
			if m.Exported() {
				c.same(name+"."+m.Name(), describe(m.Type()), c.member(theirs, m.Name()))
			}
		}
		return
	default:
		c.same(name, describe(under), describe(theirs.Underlying()))
	}
	methods := types.NewMethodSet(types.NewPointer(ours))
	for m := range methods.Methods() {
		if m.Obj().Exported() {
			c.same(name+"."+m.Obj().Name(), describe(m.Obj().Type()), c.member(types.NewPointer(theirs), m.Obj().Name()))
		}
	}
}

// member describes a field or method of a real type.
func (c *comparison) member(t types.Type, name string) string {
	o, _, _ := types.LookupFieldOrMethod(t, true, c.real, name)
	if o == nil {
		return "not there"
	}
	return describe(o.Type())
}

// implementations checks that a type implements an interface in both or in neither.
func (c *comparison) implementations() {
	for _, i := range c.standIn.Scope().Names() {
		ours, theirs, ok := c.both(i)
		if !ok || !types.IsInterface(ours) || !types.IsInterface(theirs) {
			continue
		}
		for _, name := range c.standIn.Scope().Names() {
			t, real, ok := c.both(name)
			if !ok || types.IsInterface(t) {
				continue
			}
			c.same(name+"'s being a "+i,
				types.Implements(types.NewPointer(t), ours.Underlying().(*types.Interface)),
				types.Implements(types.NewPointer(real), theirs.Underlying().(*types.Interface)))
		}
	}
}

// both looks up an exported type.
func (c *comparison) both(name string) (ours, theirs types.Type, ok bool) {
	o, isType := c.standIn.Scope().Lookup(name).(*types.TypeName)
	t, isTypeToo := c.real.Scope().Lookup(name).(*types.TypeName)
	if !isType || !isTypeToo || !o.Exported() {
		return nil, nil, false
	}
	return o.Type(), t.Type(), true
}

func kind(t types.Type) string {
	switch t.Underlying().(type) {
	case *types.Struct:
		return "a struct"
	case *types.Interface:
		return "an interface"
	}
	return describe(t.Underlying())
}

func closed(i *types.Interface) bool {
	for m := range i.Methods() {
		if !m.Exported() {
			return true
		}
	}
	return false
}

// describe writes a type without the names of parameters.
func describe(t types.Type) string { return types.TypeString(nameless(t), nil) }

func nameless(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, namelessAll(t.Params()), namelessAll(t.Results()), t.Variadic())
	case *types.Slice:
		return types.NewSlice(nameless(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), nameless(t.Elem()))
	}
	return t
}

func namelessAll(t *types.Tuple) *types.Tuple {
	var all []*types.Var
	for v := range t.Variables() {
		all = append(all, types.NewVar(token.NoPos, nil, "", nameless(v.Type())))
	}
	return types.NewTuple(all...)
}
