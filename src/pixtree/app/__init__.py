"""The web app behind `pixtree demo`: a server that grows trees, and one page that draws their cuts by itself."""
