// SPDX-License-Identifier: Apache-2.0
#include "ipc_library.hpp"

#include <dlfcn.h>

#include <optional>
#include <string>
#include <type_traits>

namespace tw::ipc {
namespace {

const Library* replacement = nullptr;

// Loads a vendor's functions, whose names begin with `prefix`.
std::optional<Library> load(const std::string& prefix) {
  Library library{};
  bool complete = true;
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, (prefix + name).c_str()));
    complete = complete && function != nullptr;
  };
  take(library.allocate, "Malloc");
  take(library.free, "Free");
  take(library.export_memory, "IpcGetMemHandle");
  take(library.map_memory, "IpcOpenMemHandle");
  take(library.unmap_memory, "IpcCloseMemHandle");
  take(library.create_event, "EventCreateWithFlags");
  take(library.export_event, "IpcGetEventHandle");
  take(library.map_event, "IpcOpenEventHandle");
  take(library.record, "EventRecord");
  take(library.wait, "StreamWaitEvent");
  take(library.text_of, "GetErrorString");
  take(library.clear_error, "GetLastError");
  if (!complete) return {};
  return library;
}

}  // namespace

void Library::replace(const Library* other) { replacement = other; }

const Library* Library::find(std::string_view kind) {
  if (replacement != nullptr) return replacement;
  if (kind != "cuda") return nullptr;
  static const std::optional<Library> cuda = load("cuda");
  static const std::optional<Library> hip = load("hip");
  return cuda ? &*cuda : hip ? &*hip : nullptr;
}

}  // namespace tw::ipc
