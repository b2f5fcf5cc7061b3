package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

const (
	driverC    = "vm/vz/descriptors.go"
	standInC   = "vm/vz/standin/runtime.c"
	driverSend = `objc_getClass\("(\w+)"\)[^"]*sel_registerName\("(\w+)"\)`
	standInHas = `\{"(\w+)", "[^"]*@0:8"`
)

// checkSelectors checks that vz sends the messages that the driver changes and the
// stand-in knows, to the class that both name. Compilers do not check selectors.
func checkSelectors(t target) (found []string, summary string, err error) {
	pkgs, err := list(t, false, nil, standInModule)
	if err != nil {
		return nil, "", err
	}
	var sent []byte
	for _, p := range pkgs {
		if p.ImportPath != standInModule {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(p.Dir, "*.m"))
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, "", err
			}
			sent = append(sent, text...)
		}
	}
	driver, err := os.ReadFile(driverC)
	if err != nil {
		return nil, "", err
	}
	standIn, err := os.ReadFile(standInC)
	if err != nil {
		return nil, "", err
	}
	found, n := unsent(sent, driver, standIn)
	return found, fmt.Sprintf("%d selectors looked up", n), nil
}

// unsent returns the driver's and the stand-in's selectors that vz does not send.
func unsent(sent, driver, standIn []byte) (found []string, n int) {
	changed := regexp.MustCompile(driverSend).FindSubmatch(driver)
	if changed == nil {
		return []string{driverC + ": no class and selector"}, 0
	}
	selectors := [][]byte{changed[2]}
	for _, has := range regexp.MustCompile(standInHas).FindAllSubmatch(standIn, -1) {
		selectors = append(selectors, has[1])
	}
	for _, s := range selectors {
		message := fmt.Sprintf(`\(%s \*\)\w+ %s\]`, changed[1], s)
		if !regexp.MustCompile(message).Match(sent) {
			found = append(found, fmt.Sprintf("vz never sends %s to a %s", s, changed[1]))
		}
	}
	return found, len(selectors)
}
