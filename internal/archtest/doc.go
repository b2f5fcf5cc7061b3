// Package archtest checks the structure of the module: import order, package comments, sizes, and that documents name things that exist.
package archtest
