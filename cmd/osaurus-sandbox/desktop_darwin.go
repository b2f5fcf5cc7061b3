package main

// opener is the program that opens a file as a double click would, if there is a
// desktop.
func opener() string { return "/usr/bin/open" }
