//go:build darwin || vzstandin

package vz

/*
#cgo darwin LDFLAGS: -lobjc -framework Virtualization
#cgo vzstandin CFLAGS: -I${SRCDIR}/standin/include
#include <fcntl.h>
#include <pthread.h>
#include <objc/runtime.h>

static int (*owned)(id, SEL);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int exchanged;

static int duplicate(id connection, SEL selector) {
	int fd = owned(connection, selector);
	return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void exchange(void) {
	Class class = objc_getClass("VZVirtioSocketConnection");
	Method getter = class ? class_getInstanceMethod(class, sel_registerName("fileDescriptor")) : 0;
	if (!getter || *method_getTypeEncoding(getter) != 'i') // does not return an int
		return;
	owned = (int (*)(id, SEL))method_getImplementation(getter);
	method_setImplementation(getter, (IMP)duplicate);
	exchanged = 1;
}

static int giveDuplicates(void) {
	pthread_once(&once, exchange);
	return exchanged;
}
*/
import "C"

import "errors"

// giveDuplicates makes the framework's connections return duplicates of their descriptors.
//
// vz v3.7.1 takes a connection's descriptor for its own and closes it. The connection
// closes the same number again when it is released, when it may be another file's
// (apple/containerization issue 382, tart issue 1333). vz asks each connection once, so it
// gets a descriptor of its own. Remove this when vz duplicates descriptors itself.
func giveDuplicates() error {
	if C.giveDuplicates() == 0 {
		return errors.New("the framework's connections have no fileDescriptor: this macOS is not supported")
	}
	return nil
}
