# What `tmux capture-pane -e` prints, as an SVG picture: awk -f tools/screen_to_svg.awk <screen >picture.svg
# Knows bold, reverse, and the eight colours before the letters.
function xml(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}
# Letters that look alike as one piece, at its place in the row.
function piece(text, x, y) {
    if (text == "") return
    width = length(text) * WIDE
    if (reverse)
        body = body sprintf("<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%d\" fill=\"%s\"/>\n", x, y - 13, width, HIGH, ink)
    # Word by word: what a viewer makes of blanks does not matter then.
    while (match(text, /[^ ]+/)) {
        x += (RSTART - 1) * WIDE
        body = body sprintf("<text x=\"%g\" y=\"%d\" textLength=\"%g\"%s fill=\"%s\">%s</text>\n", x, y, RLENGTH * WIDE, \
            bold ? " font-weight=\"bold\"" : "", reverse ? PAPER : ink, xml(substr(text, RSTART, RLENGTH)))
        x += RLENGTH * WIDE
        text = substr(text, RSTART + RLENGTH)
    }
}
function attribute(code) {
    if (code == "" || code == 0) { bold = 0; reverse = 0; ink = INK }
    else if (code == 1) bold = 1
    else if (code == 22) bold = 0
    else if (code == 7) reverse = 1
    else if (code == 27) reverse = 0
    else if (code == 39) ink = INK
    else if (code >= 30 && code <= 37) ink = colour[code - 30]
}
BEGIN {
    WIDE = 8.4; HIGH = 17; INK = "#d4d4d4"; PAPER = "#1b1b1b"
    split("#555555 #f0625f #6cc76c #e5c15b #6da2f0 #c98be0 #5cc7c7 #e6e6e6", names, " ")
    for (i = 1; i <= 8; i++) colour[i - 1] = names[i]
    attribute(0)
}
{
    y = 20 + (NR - 1) * HIGH
    column = 0
    rest = $0
    while (rest != "") {
        start = index(rest, "\033[")
        plain = start ? substr(rest, 1, start - 1) : rest
        piece(plain, 10 + column * WIDE, y)
        column += length(plain)
        if (column > widest) widest = column
        if (!start) break
        rest = substr(rest, start + 2)
        match(rest, /^[0-9;]*/)
        count = split(substr(rest, 1, RLENGTH), codes, ";")
        if (count == 0) attribute(0)
        for (i = 1; i <= count; i++) attribute(codes[i])
        rest = substr(rest, RLENGTH + 2)
    }
}
END {
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" font-size=\"14\">\n", \
        20 + widest * WIDE, 20 + NR * HIGH
    printf "<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"%s\"/>\n%s</svg>\n", PAPER, body
}
