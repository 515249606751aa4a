// SPDX-License-Identifier: Apache-2.0
#include "nccl_library.hpp"

#include <dlfcn.h>

#include <optional>

namespace tw::nccl {
namespace {

constexpr int min_version = 21700;

// Where to look up functions: libraries already loaded come first, such as the one of a CUDA LibTorch.
void* handle() {
  if (dlsym(RTLD_DEFAULT, "ncclCommInitRankConfig") != nullptr) return RTLD_DEFAULT;
  for (const char* name : {"libnccl.so.2", "librccl.so.1"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

const Library* replacement = nullptr;

std::optional<Library> load() {
  void* const from = handle();
  Library library{};
  bool complete = true;
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(from, name));
    complete = complete && function != nullptr;
  };
  take(library.get_version, "ncclGetVersion");
  take(library.get_unique_id, "ncclGetUniqueId");
  take(library.comm_init_rank_config, "ncclCommInitRankConfig");
  take(library.comm_abort, "ncclCommAbort");
  take(library.comm_get_async_error, "ncclCommGetAsyncError");
  take(library.get_error_string, "ncclGetErrorString");
  take(library.get_last_error, "ncclGetLastError");
  take(library.all_reduce, "ncclAllReduce");
  take(library.reduce, "ncclReduce");
  take(library.reduce_scatter, "ncclReduceScatter");
  take(library.all_gather, "ncclAllGather");
  take(library.broadcast, "ncclBroadcast");
  take(library.send, "ncclSend");
  take(library.receive, "ncclRecv");
  take(library.group_start, "ncclGroupStart");
  take(library.group_end, "ncclGroupEnd");
  int version = 0;
  if (!complete || library.get_version(&version) != Result::success || version < min_version) return {};
  return library;
}

}  // namespace

void Library::replace(const Library* other) { replacement = other; }

const Library* Library::find(std::string_view kind) {
  if (replacement != nullptr) return replacement;
  if (kind != "cuda") return nullptr;
  static const std::optional<Library> found = load();
  return found ? &*found : nullptr;
}

}  // namespace tw::nccl
