// SPDX-License-Identifier: Apache-2.0

// Prints the names of the RDMA devices, as Go programs do that open libibverbs at run time.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef void **(*list_function)(int *);
typedef const char *(*name_function)(void *);
typedef void *(*open_function)(void *);
typedef int (*close_function)(void *);
typedef void (*free_function)(void **);

static void **call_list(void *f, int *count) { return ((list_function)f)(count); }
static const char *call_name(void *f, void *device) { return ((name_function)f)(device); }
static void *call_open(void *f, void *device) { return ((open_function)f)(device); }
static int call_close(void *f, void *context) { return ((close_function)f)(context); }
static void call_free(void *f, void **list) { ((free_function)f)(list); }
*/
import "C"

import (
	"fmt"
	"log"
	"runtime/debug"
	"unsafe"
)

func lookUp(library unsafe.Pointer, name string) unsafe.Pointer {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	function := C.dlsym(library, text)
	if function == nil {
		log.Fatalf("no function %s: %s", name, C.GoString(C.dlerror()))
	}
	return function
}

// A nil pointer is dereferenced. The NIC handles SIGSEGV, and Go must still turn it into a panic.
func panics() (panicked bool) {
	defer func() { panicked = recover() != nil }()
	var nowhere *int
	return *nowhere == 0
}

func main() {
	debug.SetPanicOnFault(true)
	name := C.CString("libibverbs.so.1")
	defer C.free(unsafe.Pointer(name))
	library := C.dlopen(name, C.RTLD_NOW)
	if library == nil {
		log.Fatal(C.GoString(C.dlerror()))
	}
	var count C.int
	list := C.call_list(lookUp(library, "ibv_get_device_list"), &count)
	for _, device := range unsafe.Slice(list, int(count)) {
		context := C.call_open(lookUp(library, "ibv_open_device"), device)
		if context == nil {
			log.Fatal("ibv_open_device")
		}
		fmt.Println(C.GoString(C.call_name(lookUp(library, "ibv_get_device_name"), device)))
		if !panics() {
			log.Fatal("a nil pointer was dereferenced without a panic")
		}
		if C.call_close(lookUp(library, "ibv_close_device"), context) != 0 {
			log.Fatal("ibv_close_device")
		}
	}
	C.call_free(lookUp(library, "ibv_free_device_list"), list)
}
