// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tw/report/markup.hpp>
#include <tw/report/svg.hpp>

namespace svg_test {

using namespace tw::report;

TEST(Markup, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escaped(std::string("a\0b\n\x1f", 5)), "a b  ") << "control characters";
  EXPECT_EQ(escaped("\xc3\xa9"), "\xc3\xa9") << "UTF-8 stays";
}

TEST(Markup, TablesEscapeTheirCells) {
  EXPECT_EQ(row({"a", "<"}), "<tr><td>a</td><td>&lt;</td></tr>\n");
  EXPECT_EQ(table({"x"}, {{"1"}, {"2"}}),
            "<div class=\"wide\"><table><tr><th>x</th></tr>\n<tr><td>1</td></tr>\n<tr><td>2</td></tr>\n</table>\n</div>\n");
}

TEST(Svg, DrawsEachShapeWithItsAttributes) {
  Svg svg(100, 50.25);
  svg.line({0, 1}, {2.04, 3.06}, "#888", {{"stroke-width", 2}});
  svg.text({1, 2}, "end", "a & b", {turned(-90, {1, 2})});
  svg.rect({1, 2}, 3, 4, "red", "a \"tip\"");
  svg.circle({1, 2}, 2.5, "blue");
  svg.polyline({{1, 2}, {3, 4}}, "green", "", {{"class", "c"}});
  svg.area({{1, 2}, {3, 4}, {5, 2}}, "grey", "a tip");
  svg.begin_group({{"class", "g"}});
  svg.curve({1, 2}, {3, 4}, {5, 6}, {7, 8}, "black");
  svg.end_group();
  EXPECT_EQ(svg.in_page(),
            "<div class=\"wide\"><svg width=\"100.0\" height=\"50.2\">\n"
            "<line x1=\"0.0\" y1=\"1.0\" x2=\"2.0\" y2=\"3.1\" stroke=\"#888\" stroke-width=\"2.0\"/>\n"
            "<text x=\"1.0\" y=\"2.0\" text-anchor=\"end\" transform=\"rotate(-90.0 1.0 2.0)\">a &amp; b</text>\n"
            "<rect x=\"1.0\" y=\"2.0\" width=\"3.0\" height=\"4.0\" fill=\"red\"><title>a &quot;tip&quot;</title></rect>\n"
            "<circle cx=\"1.0\" cy=\"2.0\" r=\"2.5\" fill=\"blue\"/>\n"
            "<polyline fill=\"none\" stroke=\"green\" points=\"1.0,2.0 3.0,4.0\" class=\"c\"/>\n"
            "<polygon fill=\"grey\" points=\"1.0,2.0 3.0,4.0 5.0,2.0\"><title>a tip</title></polygon>\n"
            "<g class=\"g\">\n"
            "<path fill=\"none\" stroke=\"black\" d=\"M1.0 2.0 C3.0 4.0 5.0 6.0 7.0 8.0\"/>\n"
            "</g>\n"
            "</svg></div>\n");
}

TEST(Svg, LiesAboveWhatItIsAddedTo) {
  Svg svg(10, 10);
  Svg above(10, 10);
  above.circle({1, 1}, 1, "red");
  svg.circle({1, 1}, 1, "blue");
  svg.add(above);
  const std::string file = svg.file();
  EXPECT_LT(file.find("blue"), file.find("red"));
  EXPECT_TRUE(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10.0\" height=\"10.0\" viewBox=\"0 0 10.0 10.0\"")) << file;
  EXPECT_TRUE(file.ends_with("</svg>\n")) << file;
}

}  // namespace svg_test
