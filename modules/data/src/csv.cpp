// SPDX-License-Identifier: Apache-2.0
#include <tw/base/file.hpp>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/data/csv.hpp>

namespace tw {
namespace {

constexpr size_t max_shown = 20;  // malformed rows in one message
constexpr const char* header_option_hint = " (with CsvOptions::header, or data.header of the tool)";

struct Line {
  std::string_view text;  // without its line end
  int64_t number = 0;     // from 1
  int64_t offset = 0;     // bytes from the start of the file
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Iterates over the lines that have content.
class Lines {
 public:
  Lines(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") position_ = 3;  // UTF-8's byte order mark
  }

  std::optional<Line> next() {
    while (position_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', position_), text_.size());
      Line line{text_.substr(position_, end - position_), ++number_, static_cast<int64_t>(position_)};
      position_ = end + 1;
      if (!line.text.empty() && line.text.back() == '\r') line.text.remove_suffix(1);
      if (has_content(line.text)) return line;
    }
    return std::nullopt;
  }

 private:
  // Delimiters count as content even if they are blanks: an empty row is an error in the file.
  bool has_content(std::string_view line) const {
    return std::any_of(line.begin(), line.end(), [this](char c) { return c == delimiter_ || !is_blank(c); });
  }

  std::string_view text_;
  char delimiter_;
  size_t position_ = 0;
  int64_t number_ = 0;
};

// One field with its blanks and quotes.
std::string_view take_field(std::string_view& rest, char delimiter, bool& more) {
  bool quoted = false;
  size_t end = 0;
  while (end < rest.size() && (quoted || rest[end] != delimiter)) quoted ^= rest[end++] == '"';
  const std::string_view field = rest.substr(0, end);
  more = end < rest.size();
  rest.remove_prefix(more ? end + 1 : end);
  return trimmed(field);
}

std::string_view unquoted(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return field;
  return trimmed(field.substr(1, field.size() - 2));
}

std::string name_in(std::string_view field) {
  std::string name(unquoted(field));
  for (size_t at = name.find("\"\""); at != std::string::npos; at = name.find("\"\"", at + 1)) name.erase(at, 1);
  return name;
}

constexpr const char* too_large = "does not fit into a float64";

// What is wrong with a field, or nullptr.
const char* parse_number(std::string_view field, double& value) {
  std::string_view text = unquoted(field);
  if (text.empty()) return "is empty";
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);  // not accepted by from_chars()
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range && stopped == end) return too_large;
  return error == std::errc{} && stopped == end ? nullptr : "is not a number";
}

// Whether a field is meant as a value rather than a column name: markers of missing values, truth values, numbers that do not fit, and several
// numbers separated by another delimiter, such as 1,5.
bool is_meant_as_value(std::string_view field, char delimiter) {
  double value = 0;
  const char* problem = parse_number(field, value);
  if (problem == nullptr || std::string_view(problem) == too_large) return true;
  std::string text(unquoted(field));
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* word : {"na", "n/a", "#n/a", "null", "none", "true", "false"}) {
    if (text == word) return true;
  }
  constexpr std::string_view delimiters = ",;|\t ";
  for (const char other : delimiters) {
    if (other == delimiter || text.find(other) == std::string::npos) continue;
    std::string_view rest = text;
    bool numbers = true;
    for (bool more = true; more && numbers;) numbers = parse_number(take_field(rest, other, more), value) == nullptr;
    if (numbers) return true;
  }
  return false;
}

// The field for a message: without control characters, and shortened.
std::string shown(std::string_view field) {
  constexpr size_t most = 40;
  std::string text(field.substr(0, most));
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return concat("'", text, field.size() > most ? "...'" : "'");
}

class Parser {
 public:
  Parser(const MappedFile& file, const CsvOptions& options) : file_(file), options_(options), lines_(file.content(), options.delimiter) {}

  CsvTable parse() {
    std::optional<Line> line = lines_.next();
    if (!line) throw FileError(file_.path(), 0, "the file holds neither a header nor numbers");
    CsvTable table;
    if (is_header(*line)) {
      table.columns = names_in(*line);
      columns_ = table.columns.size();
      line = lines_.next();
    }
    for (; line; line = lines_.next()) add_row(*line);
    report();
    const auto columns = static_cast<int64_t>(columns_);
    table.values = at::empty({columns == 0 ? 0 : static_cast<int64_t>(values_.size()) / columns, columns}, at::kDouble);
    if (!values_.empty()) std::memcpy(table.values.data_ptr(), values_.data(), values_.size() * sizeof(double));
    return table;
  }

 private:
  bool is_header(const Line& line) const {
    if (options_.header != CsvHeader::automatic) return options_.header == CsvHeader::present;
    int64_t fields = 0;
    int64_t numbers = 0;
    int64_t counted = 0;  // fields equal to their index: 0, 1, 2
    std::string doubt;    // about the first field that is not a number
    std::string value_among_names;
    std::string_view rest = line.text;
    for (bool more = true; more; ++fields) {
      const std::string_view field = take_field(rest, options_.delimiter, more);
      double value = 0;
      const char* problem = parse_number(field, value);
      numbers += problem == nullptr ? 1 : 0;
      counted += problem == nullptr && value == static_cast<double>(fields) ? 1 : 0;
      if (problem == nullptr) continue;
      const std::string what = concat("column ", fields + 1, " ", problem, ": ", shown(field));
      if (doubt.empty()) doubt = what;
      if (value_among_names.empty() && is_meant_as_value(field, options_.delimiter)) value_among_names = what;
    }
    const auto fail = [&](const std::string& what) {
      throw FileError(file_.path(), line.offset, concat("line ", line.number, ", ", what, "; set whether this line is a header", header_option_hint));
    };
    if (numbers == 0 && !value_among_names.empty()) fail(concat(value_among_names, ", which looks like a value"));
    if (numbers > 0 && numbers < fields) fail(concat(doubt, ", and ", numbers, " of the ", fields, " fields are numbers"));
    if (fields > 1 && counted == fields) {
      log_warning(file_.path().string(), ": line ", line.number,
                  " numbers its columns from 0; it is read as values. If the line is a header, set that", header_option_hint);
    }
    return numbers == 0;
  }

  std::vector<std::string> names_in(const Line& line) const {
    std::vector<std::string> names;
    std::string_view rest = line.text;
    for (bool more = true; more;) names.push_back(name_in(take_field(rest, options_.delimiter, more)));
    return names;
  }

  void add_row(const Line& line) {
    const size_t begin = values_.size();
    std::string_view rest = line.text;
    for (bool more = true; more;) {
      const std::string_view field = take_field(rest, options_.delimiter, more);
      double value = 0;
      if (const char* problem = parse_number(field, value)) {
        const auto offset = line.offset + (field.data() - line.text.data());
        malformed(line, offset, concat("column ", values_.size() - begin + 1, " ", problem, ": ", shown(field)));
        values_.resize(begin);
        return;
      }
      values_.push_back(value);
    }
    const size_t fields = values_.size() - begin;
    if (columns_ == 0) columns_ = fields;
    if (fields == columns_) return;
    malformed(line, line.offset, concat(fields, " fields, but ", columns_, " are expected"));
    values_.resize(begin);
  }

  void malformed(const Line& line, int64_t offset, const std::string& problem) {
    if (malformed_++ == 0) first_ = offset;
    if (malformed_ <= max_shown) problems_ += concat("\n  line ", line.number, ", byte ", offset, ": ", problem);
  }

  void report() const {
    if (malformed_ == 0) return;
    std::string text = concat(malformed_, malformed_ == 1 ? " row is malformed:" : " rows are malformed:", problems_);
    if (malformed_ > max_shown) text += concat("\n  and ", malformed_ - max_shown, " more");
    throw FileError(file_.path(), first_, text);
  }

  const MappedFile& file_;
  const CsvOptions& options_;
  Lines lines_;
  size_t columns_ = 0;
  std::vector<double> values_;
  size_t malformed_ = 0;
  int64_t first_ = 0;
  std::string problems_;
};

}  // namespace

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const char delimiter = options.delimiter;
  const bool in_numbers = (delimiter >= '0' && delimiter <= '9') || (delimiter >= 'a' && delimiter <= 'z') ||
                          (delimiter >= 'A' && delimiter <= 'Z') || std::string_view(".+-\"\r\n").find(delimiter) != std::string_view::npos ||
                          delimiter == '\0';
  TW_EXPECTS(!in_numbers, "CsvOptions::delimiter must not be a character of numbers, quotes or line ends, got ", shown({&delimiter, 1}));
  const MappedFile file(path);
  return Parser(file, options).parse();
}

}  // namespace tw
