// SPDX-License-Identifier: Apache-2.0
// The main thread ends by pthread_exit(), and later the last thread of the program does. Then the
// process ends with status 0, after its exit handlers (pthread_exit(3)).
#include <pthread.h>
#include <thread>

#include <cstdio>
#include <cstdlib>

#include "queue_pairs.h"

int main() {
	std::atexit([] { std::puts("the process ends"); });
	open_loopback();
	// A value of the main thread. Its destructor lasts longer than a look of the NIC (50 ms), so
	// that a NIC which does not wait for it shows. The order of the lines does not depend on the
	// time.
	pthread_key_t key;
	const auto end_of_value = [](void*) {
		usleep(100'000);
		std::puts("the main thread's value ends");
	};
	demand(!pthread_key_create(&key, end_of_value) && !pthread_setspecific(key, &key), "pthread_key");
	std::thread([main_thread = pthread_self()] {
		pthread_join(main_thread, nullptr);
		std::puts("the last thread ends");
	}).detach();
	pthread_exit(nullptr);
}
