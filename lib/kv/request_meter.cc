// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/request_meter.h"

namespace verbena::kv {

std::string_view word_of(RequestKind kind) {
	switch (kind) {
		case RequestKind::get: return "get";
		case RequestKind::set: return "set";
		case RequestKind::remove: return "del";
		case RequestKind::index: return "index";
		case RequestKind::scan: return "scan";
		case RequestKind::info: return "info";
		case RequestKind::none:
		case RequestKind::other: return "other";
	}
	return "?";
}

std::string_view word_of(Status result) {
	switch (result) {
		case Status::good: return "good";
		case Status::missing: return "missing";
		case Status::full: return "full";
		case Status::too_large: return "too_large";
		case Status::unsupported: return "unsupported";
		case Status::place: return "place";
		case Status::remote: return "remote";
		case Status::index: return "index";
		case Status::moved: return "moved";
		case Status::busy: return "busy";
		case Status::changed: return "changed";
		case Status::disk: return "disk";
		case Status::settled: return "settled";
		case Status::leaving: return "leaving";
		case Status::event: return "event";
	}
	return "unknown";
}

}  // namespace verbena::kv
