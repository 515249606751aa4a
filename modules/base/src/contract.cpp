// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/process.hpp>

#include <filesystem>

namespace tw::detail {
namespace {

std::string place(const char* file, int line) { return concat(std::filesystem::path(file).filename().string(), ":", line); }

}  // namespace

void throw_contract_error(const char* condition, const char* file, int line, const std::string& message) {
  throw ContractError(concat(process_label(), ": ", message, " [", place(file, line), ": expected ", condition, "]"));
}

void throw_broken_invariant(const char* condition, const char* file, int line) {
  throw_contract_error(condition, file, line, "broken invariant of Torchweave: please report this");
}

}  // namespace tw::detail
