// SPDX-License-Identifier: Apache-2.0
// A secret that all processes of one user on this machine know, and no other user: 32 random bytes,
// made by the first process that asks.
//
// The secret is a key in the user keyring of the kernel (keyrings(7)), which needs no privilege and
// lasts as long as the user has processes. Where a filter of system calls forbids keyrings, as that
// of Docker does, or before Linux 5.3, it is a file in one of private_folders().
//
// Threads: any.
// Errors: nothing if there is no place for a secret: no keyring, and no private folder.
// Invariants: processes that ask at the same moment, at the same place, get the same bytes. A key
//   or file is put in its place complete, by a step that fails if there is one already.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace verbena {

struct UserSecret {
	enum class Where { keyring, file };
	std::array<std::byte, 32> bytes;
	Where where;
};

// Finds the secret of the calling thread's effective user, or makes it.
std::optional<UserSecret> find_user_secret();

namespace detail {

// One place each, for tests. `name`: the description of the key.
std::optional<UserSecret> find_in_keyring(const char* name);
std::optional<UserSecret> make_in_keyring(const char* name);
std::optional<UserSecret> find_in_files(const std::vector<std::string>& folders);
std::optional<UserSecret> make_in_files(const std::vector<std::string>& folders);

}  // namespace detail

}  // namespace verbena
