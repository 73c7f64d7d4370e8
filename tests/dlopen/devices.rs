// SPDX-License-Identifier: Apache-2.0
//! Prints the names of the RDMA devices, as Rust programs do that open libibverbs at run time.
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

fn look_up(library: *mut c_void, name: &str) -> *mut c_void {
    let text = CString::new(name).unwrap();
    let function = unsafe { dlsym(library, text.as_ptr()) };
    assert!(!function.is_null(), "no function {}", name);
    function
}

type List = unsafe extern "C" fn(*mut c_int) -> *mut *mut c_void;
type Free = unsafe extern "C" fn(*mut *mut c_void);
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Open = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

fn main() {
    unsafe {
        let file = CString::new("libibverbs.so.1").unwrap();
        let library = dlopen(file.as_ptr(), RTLD_NOW);
        assert!(!library.is_null(), "no libibverbs.so.1");
        let list: List = std::mem::transmute(look_up(library, "ibv_get_device_list"));
        let free: Free = std::mem::transmute(look_up(library, "ibv_free_device_list"));
        let name: Name = std::mem::transmute(look_up(library, "ibv_get_device_name"));
        let open: Open = std::mem::transmute(look_up(library, "ibv_open_device"));
        let close: Close = std::mem::transmute(look_up(library, "ibv_close_device"));

        let mut count: c_int = 0;
        let devices = list(&mut count);
        for device in std::slice::from_raw_parts(devices, count as usize) {
            let context = open(*device);
            assert!(!context.is_null(), "ibv_open_device: {}", std::io::Error::last_os_error());
            println!("{}", CStr::from_ptr(name(*device)).to_str().unwrap());
            assert_eq!(close(context), 0);
        }
        free(devices);
    }
}
