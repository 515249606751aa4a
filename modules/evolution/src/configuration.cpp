// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/configuration.hpp>

#include <cmath>
#include <tw/base/contract.hpp>

namespace tw::search {

Configuration::Configuration(const Space& space, std::vector<double> values) : space_(&space), values_(std::move(values)) {
  TW_EXPECTS(values_.size() == space.size(), "a configuration of this space needs ", space.size(), " values, got ", values_.size());
}

double Configuration::value_of(std::string_view name) const {
  const double value = values_[space_->index_of(name)];
  TW_EXPECTS(!std::isnan(value), "parameter '", name, "' does not exist in this configuration: ", describe());
  return value;
}

double Configuration::real(std::string_view name) const {
  const Parameter& p = space_->parameters()[space_->index_of(name)];
  TW_EXPECTS(p.kind != Parameter::Kind::categorical, "parameter '", name, "' is not a number; use text()");
  const double value = value_of(name);
  return p.kind == Parameter::Kind::ordinal ? p.numbers[static_cast<size_t>(value)] : value;
}

int64_t Configuration::integer(std::string_view name) const {
  const double value = real(name);
  TW_EXPECTS(value == std::floor(value) && std::abs(value) < 0x1p63, "parameter '", name, "' is ", value, ", which is not a 64-bit integer");
  return static_cast<int64_t>(value);
}

std::string Configuration::text(std::string_view name) const { return space_->parameters()[space_->index_of(name)].text_of(value_of(name)); }

bool Configuration::has(std::string_view name) const { return !std::isnan(values_[space_->index_of(name)]); }

std::string Configuration::describe() const {
  std::string text;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (std::isnan(values_[i])) continue;
    if (!text.empty()) text += ' ';
    text += space_->parameters()[i].name + '=' + space_->parameters()[i].text_of(values_[i]);
  }
  return text;
}

}  // namespace tw::search
