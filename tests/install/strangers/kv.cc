// SPDX-License-Identifier: Apache-2.0
// kv SERVER: sets a key, and prints the value that it gets.
#include <verbena/kv.h>

#include <iostream>

int main(int argc, char** argv) {
	void* store = nullptr;
	char* value = nullptr;
	if (argc != 2) return 2;
	if (kv_open(argv[1], &store) != KV_OK || kv_set(store, "language", "C++") != KV_OK ||
		kv_get(store, "language", &value) != KV_OK) {
		std::cerr << kv_last_error(nullptr) << "\n";
		return 1;
	}
	std::cout << "written in " << value << "\n";
	kv_release(value);
	return kv_close(store) != KV_OK;
}
