// SPDX-License-Identifier: Apache-2.0
#include "size_variants.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>

#include <set>

namespace tw::splits {
namespace {

constexpr size_t most_variants = 16;

/// The sizes in an argument.
std::vector<graph::Size*> sizes_in(graph::Argument& argument) {
  if (auto* size = std::get_if<graph::Size>(&argument)) return {size};
  std::vector<graph::Size*> found;
  if (auto* list = std::get_if<std::vector<graph::Size>>(&argument)) {
    for (graph::Size& each : *list) found.push_back(&each);
  }
  return found;
}

/// Declared as sizes, but they count or index something else.
const std::set<std::string> other_numbers{"padding_idx", "index", "k", "stride", "padding", "dilation", "output_padding", "kernel_size"};

bool holds_sizes(const c10::Argument& declared) {
  if (other_numbers.contains(declared.name())) return false;
  c10::TypePtr type = declared.real_type();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType();
  if (const auto* list = type->castRaw<c10::ListType>()) type = list->getElementType();
  return type->kind() == c10::TypeKind::SymIntType || declared.name() == "num_groups";
}

std::vector<SizePlace> divisible(const graph::Node& node, int ranks) {
  const auto op = c10::Dispatcher::singleton().findSchema({node.op, node.overload});
  if (!op) return {};
  std::vector<SizePlace> places;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (!holds_sizes(op->schema().arguments()[i])) continue;
    graph::Argument argument = node.arguments[i];
    const std::vector<graph::Size*> sizes = sizes_in(argument);
    for (size_t j = 0; j < sizes.size(); ++j) {
      if (sizes[j]->per_row == 0 && sizes[j]->fixed > 1 && sizes[j]->fixed % ranks == 0) places.push_back({i, j});
    }
  }
  return places;
}

}  // namespace

std::vector<std::vector<SizePlace>> size_variants(const graph::Node& node, int ranks) {
  const std::vector<SizePlace> places = divisible(node, ranks);
  std::vector<std::vector<SizePlace>> variants{{}};
  const auto add = [&](std::vector<SizePlace> divided) {
    if (variants.size() < most_variants) variants.push_back(std::move(divided));
  };
  for (const SizePlace& each : places) add({each});
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t j = i + 1; j < places.size(); ++j) add({places[i], places[j]});
  }
  if (places.size() > 2) add(places);
  return variants;
}

std::vector<graph::Argument> divided_arguments(const graph::Node& node, const std::vector<SizePlace>& divided, int ranks) {
  std::vector<graph::Argument> arguments = node.arguments;
  for (const SizePlace& each : divided) sizes_in(arguments[each.argument])[each.element]->fixed /= ranks;
  return arguments;
}

}  // namespace tw::splits
