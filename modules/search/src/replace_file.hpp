// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <string>

namespace tw::search {

/// Has `write` make a file beside `path`, and puts it in the place of `path` once it is whole and on the disk. @throws what `write` throws; FileError
void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write);

void replace_file(const std::filesystem::path& path, const std::string& content);

}  // namespace tw::search
