// The part of Apple's <objc/runtime.h> that the driver uses, for runtime.c. References are
// weak, because cgo links each package alone first.
#ifndef RUNTIME
#define RUNTIME __attribute__((weak))
#endif

typedef struct objc_object *id;
typedef struct objc_class *Class;
typedef struct objc_selector *SEL;
typedef struct objc_method *Method;
typedef void (*IMP)(void);

RUNTIME Class objc_getClass(const char *name);
RUNTIME SEL sel_registerName(const char *name);
RUNTIME Method class_getInstanceMethod(Class class, SEL selector);
RUNTIME IMP method_getImplementation(Method method);
RUNTIME IMP method_setImplementation(Method method, IMP implementation);
RUNTIME const char *method_getTypeEncoding(Method method);
