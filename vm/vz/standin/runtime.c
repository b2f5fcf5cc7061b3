#define RUNTIME
#include "include/objc/runtime.h"
#include <string.h>

// The one class, as in VZVirtioSocketConnection.h.

struct objc_object { int fileDescriptor; };
struct objc_selector { char name; };
struct objc_method { const char *name, *types; IMP implementation; };

static int fileDescriptor(id self, SEL selector) { return self->fileDescriptor; }

static struct objc_method methods[] = {
	{"fileDescriptor", "i16@0:8", (IMP)fileDescriptor},
	{"destinationPort", "I16@0:8", 0},
	{"sourcePort", "I16@0:8", 0},
};

Class objc_getClass(const char *name) {
	return strcmp(name, "VZVirtioSocketConnection") ? 0 : (Class)methods;
}

SEL sel_registerName(const char *name) { return (SEL)name; }

Method class_getInstanceMethod(Class class, SEL selector) {
	for (unsigned i = 0; i < sizeof methods / sizeof *methods; i++)
		if (class && !strcmp(methods[i].name, (const char *)selector))
			return &methods[i];
	return 0;
}

IMP method_getImplementation(Method method) { return __atomic_load_n(&method->implementation, __ATOMIC_SEQ_CST); }

IMP method_setImplementation(Method method, IMP implementation) {
	return __atomic_exchange_n(&method->implementation, implementation, __ATOMIC_SEQ_CST);
}

const char *method_getTypeEncoding(Method method) { return method->types; }

int sendFileDescriptor(int fd) {
	struct objc_object connection = {fd};
	return ((int (*)(id, SEL))method_getImplementation(&methods[0]))(&connection, 0);
}
